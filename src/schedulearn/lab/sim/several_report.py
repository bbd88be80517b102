"""The report of several traces and seeds as a page, and what it says in short."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from schedulearn.core.domain.units import format_count
from schedulearn.lab.report import files, plots
from schedulearn.lab.report.page import SCRIPT, document, note
from schedulearn.lab.report.page import table as words_table
from schedulearn.lab.sim.export import Run, as_json
from schedulearn.lab.sim.figures import Summary
from schedulearn.lab.sim.report import completion_times, how_made, legend, warnings
from schedulearn.lab.sim.run import PolicyFailed, Study
from schedulearn.lab.sim.several import COMPARED, IN_WORDS, Row, by_trace, rows, table, titled


def write_report(
    folder: Path, runs: Sequence[Run], failures: Sequence[PolicyFailed], baseline: str, command: Sequence[str]
) -> list[Path]:
    """The page, and `report.json`."""
    figures = [as_json(study, result) for study, result in runs]
    found = rows(figures, baseline)
    path = folder / "report.html"
    path.write_text(_page(runs, figures, found, failures, baseline, command), "utf-8")
    heads, lines = table(found)
    about = f"{_counted(runs)}; differences to {baseline}"
    cells = [[cell.text for cell in line] for line in lines]
    best = [[cell.sure < 0 for cell in line] for line in lines]
    return [path, files.write_summary(folder, "comparison", _title(runs), about, heads, cells, best)]


def _title(runs: Sequence[Run]) -> str:
    study = runs[0][0]
    names = list(dict.fromkeys(study.workload.name for study, _ in runs))
    return f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''} on {study.cluster}"


def _counted(runs: Sequence[Run]) -> str:
    """A run is one with all policies."""
    draws = {(study.workload.name, study.options.seed) for study, _ in runs}
    return f"{format_count(len({name for name, _ in draws}), 'trace')}, {format_count(len(draws), 'run')}"


def _page(
    runs: Sequence[Run],
    figures: Sequence[Summary],
    found: Sequence[Row],
    failures: Sequence[PolicyFailed],
    baseline: str,
    command: Sequence[str],
) -> str:
    title, traces = _title(runs), by_trace(figures)
    sub = f"{_counted(runs)}, {len(found)} policies"
    results = [result for _, result in runs]
    firsts = list({study.workload.name: study for study, _ in runs}.values())
    sections = [
        f"<h1>{escape(title)}</h1><p class=sub>{sub}</p>",
        *(warnings(study, failures if number == 0 else ()) for number, study in enumerate(firsts)),
        f"<h2>Against {escape(baseline)}</h2>{_compared(found)}{note(IN_WORDS[0].upper() + IN_WORDS[1:] + '.')}",
        _intervals(found),
        *(_of_trace(trace, own, baseline) for trace, own in traces.items() if len(traces) > 1),
        legend(results),
        completion_times(results),
        how_made(results, firsts[0], _seeds(firsts, runs), command),
    ]
    return document(title, sections, SCRIPT)


def _compared(found: Sequence[Row]) -> str:
    heads, lines = table(found)
    return words_table(heads, [[cell.text for cell in line] for line in lines])


def _of_trace(trace: str, figures: Sequence[Summary], baseline: str) -> str:
    found = rows(figures, baseline)
    return f"<details><summary>{escape(trace)} alone</summary>{_compared(found)}{_intervals(found)}</details>"


def _intervals(found: Sequence[Row]) -> str:
    charts = ""
    for metric in COMPARED:
        changes = [(row.policy, row.changes[metric.key], i) for i, row in enumerate(found) if metric.key in row.changes]
        if changes:
            title = f"{titled(metric).title}: difference in %"
            bars = [plots.Interval(name, c.mean, (c.low, c.high) if c.known else None, i) for name, c, i in changes]
            drawn = plots.interval_chart(bars, title)
            charts += f"<figure class=small><figcaption>{title}</figcaption>{drawn}</figure>"
    return f"<div class=grid2>{charts}</div>" if charts else ""


def _seeds(studies: Sequence[Study], runs: Sequence[Run]) -> str:
    words = []
    for first in studies:
        name = first.workload.name
        seeds = sorted({study.options.seed for study, _ in runs if study.workload.name == name})
        words.append(f"{name}: {'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))}")
    return "; ".join(words) + "."
