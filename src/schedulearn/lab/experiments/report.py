"""The report of an experiment: an HTML page, the same charts as PNG files, a small table as text, and CSV files."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from schedulearn.lab.experiments.charts import Chart, charts
from schedulearn.lab.experiments.runner import Outcome
from schedulearn.lab.experiments.tables import both, comparisons, markdown, rows
from schedulearn.lab.experiments.types import Machines
from schedulearn.lab.report import plots
from schedulearn.lab.report.files import write_summary, write_table
from schedulearn.lab.report.page import document, made_by, note, table
from schedulearn.lab.report.paired import interval

_FIGURE_COLUMNS = ("measure", "policy", "published", "ours", "difference", "why")
_JOB_COLUMNS = ("seed", "policy", "serial", "model", "arrival", "started", "ended", "completion", "moves", "joules")
_EVENT_COLUMNS = ("policy", "at", "job", "kind", "words")


def write_report(folder: Path, outcome: Outcome, command: Sequence[str]) -> list[Path]:
    """All files; the page comes first."""
    from schedulearn.lab.experiments.png import draw  # slow to load, and only needed where pictures are asked for

    drawn = list(charts(outcome))
    page = folder / "report.html"
    page.write_text(_page(outcome, drawn, command), "utf-8")
    pictures = [draw(chart, folder / f"{chart.name}.png") for chart in drawn]
    small = folder / "table.md"
    small.write_text(markdown(outcome), "utf-8")
    return [page, _summary(folder, outcome), *pictures, small, *_tables(folder, outcome)]


def _summary(folder: Path, outcome: Outcome) -> Path:
    experiment = outcome.experiment
    how = outcome.how or _simulated(experiment.machines)
    about = f"{experiment.about} {experiment.source}; {how}; {outcome.seeds} seeds."
    columns = ["measure", "policy", "published", "ours", "difference"]
    return write_summary(folder, "experiment", experiment.name, about, columns, [row[:5] for row in rows(outcome)])


# --- the page


def _page(outcome: Outcome, drawn: Sequence[Chart], command: Sequence[str]) -> str:
    experiment = outcome.experiment
    facts = f"{experiment.source}; {outcome.how or _simulated(experiment.machines)}; {outcome.seeds} seeds"
    if outcome.scale != 1:
        facts += f", everything {outcome.scale:g} times as long; times are given as published"
    notes = "".join(note(words) for words in (facts, *outcome.notes))
    sections = [
        f"<h1>{escape(experiment.name)}</h1><p class=sub>{escape(experiment.about)}</p>{notes}",
        "<h2>Published and ours</h2>",
        _figures(outcome),
        _against_baseline(outcome),
        *(_figure(chart) for chart in drawn),
        f"<h2>How this was made</h2>{made_by(command)}",
    ]
    return document(experiment.name, sections)


def _simulated(machines: Machines) -> str:
    size = f"{machines.gpus} GPUs" if machines.gpus else f"{machines.cores:g} cores"
    return f"simulated, {machines.count} × {size}"


def _figures(outcome: Outcome) -> str:
    """A live run has the simulated figures beside it."""
    head = ["", "policy", "published", "ours: mean (range)", "difference", "why"]
    if outcome.simulated is None:
        return table(head, rows(outcome))
    head[3:4] = ["simulated", "live: mean (range)"]
    return table(head, [(*row[:3], beside, *row[3:]) for row, beside in both(outcome)])


def _against_baseline(outcome: Outcome) -> str:
    found = list(comparisons(outcome))
    if not found:
        return ""
    cells = [
        (
            one.policy,
            f"{one.average:,.1f} s",
            interval(one.average_change),
            f"{one.makespan:,.1f} s",
            interval(one.makespan_change),
            f"{one.worst_makespan:.3f}",
        )
        for one in found
    ]
    head = ("policy", "average completion", "change, 95 % interval", "makespan", "change", "largest, × the baseline's")
    baseline = escape(outcome.experiment.baseline.label)
    return f"<h2>Against the baseline ({baseline}), seed by seed</h2>{table(head, cells)}"


def _figure(chart: Chart) -> str:
    lines = chart.lines
    points = [point for line in lines for point in line.points]
    x = plots.value_axis(max((at for at, _ in points), default=1.0))
    y = plots.fine_axis(chart.top or max((value for _, value in points), default=1.0))
    if chart.stacked:
        drawing = plots.area_chart(lines, x, y, chart.x_title, chart.y_title)
    else:
        drawing = plots.line_chart(lines, x, y, chart.x_title, chart.y_title, chart.marks)
    keys = "".join(
        f'<span><svg viewBox="0 0 14 8"><path class="line {plots.style(line.colour)}" d="M0 4H14"/></svg>'
        f"{escape(line.name)}</span>"
        for line in lines
    )
    return f"<h2>{escape(chart.title)}</h2><figure>{drawing}<div class=keys>{keys}</div></figure>"


# --- tables as files


def _tables(folder: Path, outcome: Outcome) -> list[Path]:
    jobs = [
        (
            *(run.seed, label, job.serial, job.model, job.arrival, job.started, job.ended, job.jct, job.migrations),
            "" if job.energy is None else job.energy,
        )
        for label, runs in outcome.runs.items()
        for run in runs
        for job in run.jobs
    ]
    events = [
        (label, event.at, event.serial or "", event.kind, event.words)
        for label, runs in outcome.runs.items()
        for event in runs[0].timeline.events
    ]
    return [
        write_table(folder / "figures.csv", _FIGURE_COLUMNS, rows(outcome)),
        write_table(folder / "jobs.csv", _JOB_COLUMNS, jobs),
        write_table(folder / "events.csv", _EVENT_COLUMNS, events),
    ]
