"""A figure with its aim, tables of them, and the small arithmetic of measuring."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. Figures vary from run to run; `against` sets it beside one of the same run."""

    name: str
    value: float
    unit: str = ""
    aim: float | None = None  # at most this
    against: str = ""  # e.g. "1.1 × as with 100 queued"

    @property
    def met(self) -> bool | None:
        return None if self.aim is None else self.value <= self.aim


@dataclass(slots=True)
class Figures:
    """What one benchmark found."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str = "", *, aim: float | None = None, against: str = "") -> None:
        self.figures.append(Figure(name, value, unit, aim, against))

    def add_times(self, name: str, seconds: Sequence[float], *, against: Sequence[float] = (), than: str = "") -> None:
        """p50 and p99 in milliseconds; `against` are the same measured under easier conditions."""
        for percent in (50, 99):
            value = percentile(seconds, percent)
            ratio = f"{value / percentile(against, percent):.1f} × as {than}" if against else ""
            self.add(f"{name}, p{percent}", value * 1e3, "ms", against=ratio)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left", title_style="bold")
        for column in ("figure", "value", "aim", "compared"):
            table.add_column(column, justify="right" if column in ("value", "aim") else "left")
        for figure in self.figures:
            aim = "" if figure.aim is None else f"≤ {figure.aim:g} {figure.unit}".strip()
            style = {None: "", True: "green", False: "red"}[figure.met]
            table.add_row(
                figure.name, f"[{style}]{_rounded(figure)}[/]" if style else _rounded(figure), aim, figure.against
            )
        console.print(table)
        for text in self.notes:
            console.print(f"  {text}", style="dim", markup=False, highlight=False)
        console.print()

    def save(self, name: str) -> None:
        RESULTS.mkdir(exist_ok=True)
        rows = [{**asdict(figure), "met": figure.met} for figure in self.figures]
        content = {"title": self.title, "at": time.time(), "figures": rows, "notes": self.notes}
        (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _rounded(figure: Figure) -> str:
    digits = 0 if abs(figure.value) >= 1000 else 1 if abs(figure.value) >= 10 else 2 if abs(figure.value) >= 0.1 else 4
    return f"{figure.value:,.{digits}f} {figure.unit}".strip()


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)


def timed(action: Callable[[], object]) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@contextmanager
def stopwatch(into: list[float]) -> Iterator[None]:
    """Append the seconds that the block takes."""
    start = time.perf_counter()
    yield
    into.append(time.perf_counter() - start)


def between_marks(page: Path, begin: str, end: str, text: str) -> None:
    """Put it into a page of the documentation, in place of what is there."""
    before, _, rest = page.read_text("utf-8").partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{text}\n\n{end}{after}", "utf-8")
