"""Every reading of FlowCon's rule beside what was published. The table is written into docs/results.md."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.figures import Figures, between_marks
from schedulearn.lab.experiments.catalogue import CATALOGUE
from schedulearn.lab.experiments.flowcon import OF_ALL, Edition
from schedulearn.lab.experiments.measures import measured, title_of, unit_of
from schedulearn.lab.experiments.runner import run_simulated
from schedulearn.lab.experiments.types import Experiment

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
_BEGIN, _END = "<!-- table: python -m bench flowcon -->\n", "<!-- end of table: flowcon -->"
_SEEDS = 20
_NEAR = 8.0  # points: so far are published figures of the same setting from each other
_SWEEPS = ("fixed-3-intervals", "fixed-3-thresholds")
_AT_RANDOM = ("random-5", "random-10", "random-15")
Setting = tuple[float, float]


def measure() -> Figures:
    figures = Figures(f"FlowCon: settings of fixed-3 within {_NEAR:g} points of what was published, of ten")
    sweeps = [row for name in _SWEEPS for row in _rows(CATALOGUE[name], only="job change:MNIST-T")]
    for k, edition in enumerate(OF_ALL):
        near = [abs(values[k] - published) <= _NEAR for _, published, values in sweeps]
        figures.add(edition.name, sum(near), against=f"mean distance {_distance(sweeps, k):.1f} points")
    others = [row for name in _AT_RANDOM for row in _rows(CATALOGUE[name], only="")]
    between_marks(PAGE, _BEGIN, _END, "\n".join([*_table(sweeps), *_summary(sweeps), "", *_table(others)]))
    return figures


Row = tuple[tuple[str, str], float, list[float]]  # (which setting, which measure), published, of each edition


def _rows(experiment: Experiment, only: str) -> Iterable[Row]:
    """One for each published figure of FlowCon: of one measure, or all that are changes."""
    settings: dict[Setting, list[tuple[str, float]]] = {}
    for figure in experiment.figures:
        variant = next(each for each in experiment.variants if each.label == figure.variant)
        if variant.params.get("beta") == 2 and isinstance(figure.published, float):
            setting = variant.params["alpha"], variant.params["itval"]
            settings.setdefault(setting, []).append((figure.measure, figure.published))
    variants = [edition.with_setting(*setting) for setting in settings for edition in OF_ALL]
    outcome = run_simulated(replace(experiment, variants=(experiment.baseline, *variants), figures=()), _SEEDS)
    for setting, published in settings.items():
        runs = [outcome.runs[edition.with_setting(*setting).label] for edition in OF_ALL]
        for key, value in published:
            if key == only or not (only or key == "makespan"):
                found = [measured(key, outcome.base, each).mean for each in runs]
                yield (f"{experiment.name}, {100 * setting[0]:g} %, {setting[1]:g} s", key), value, found


def _table(rows: Sequence[Row]) -> list[str]:
    head = ["", "published", *(_title(edition) for edition in OF_ALL)]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for (name, key), published, values in rows:
        cells = _cells([published, *values], is_change=unit_of(key) == "%")
        lines.append(f"| {name}: {title_of(key)} | {cells} |")
    return lines


def _summary(rows: Sequence[Row]) -> list[str]:
    near = [sum(abs(values[k] - published) <= _NEAR for _, published, values in rows) for k in range(len(OF_ALL))]
    far = [f"{_distance(rows, k):.1f}" for k in range(len(OF_ALL))]
    return [
        f"| within {_NEAR:g} points | | {' | '.join(f'{n} of {len(rows)}' for n in near)} |",
        f"| mean distance, points | | {' | '.join(far)} |",
    ]


def _distance(rows: Sequence[Row], k: int) -> float:
    return sum(abs(values[k] - published) for _, published, values in rows) / len(rows)


def _title(edition: Edition) -> str:
    return edition.name.removeprefix("flowcon ")


def _cells(values: Iterable[float], *, is_change: bool) -> str:
    return " | ".join(f"{value:+.1f}" if is_change else f"{value:.1f}" for value in values)
