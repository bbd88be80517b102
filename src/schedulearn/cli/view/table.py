"""One description of a table, two looks: fitted to a terminal's width, or whole and plain for a pipe."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from schedulearn.cli.view.text import Paint, broken, columns_of, filled, shortened
from schedulearn.wire.clean import clean
from schedulearn.wire.words import STATE_STYLE

_GAP = "  "
_LEAST = 8  # letters that a shortened column keeps


class Cell(NamedTuple):
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    of: Callable[[Any], "Cell | str"] | None = None  # makes its cell; in rows that are given nothing does
    right: bool = False  # numbers are aligned at the right
    flex: bool = False  # may be shortened on a terminal
    need: int = 0  # may be left out where there is no room: the one that needs most goes first
    keep: int = 12  # letters of a flexible one that should be left before another one is left out for it
    wrap: bool = False  # broken into lines instead of shortened


Row = Sequence[Cell | str]


def rows_of(columns: Sequence[Column], things: Iterable[Any]) -> list[Row]:
    """A row for each thing, made by the columns."""
    return [[column.of(thing) if column.of else "" for column in columns] for thing in things]


def styled(state: str) -> Cell:
    """A state in its colour."""
    return Cell(state, STATE_STYLE.get(state, ""))


def _cell(value: Cell | str) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    return Cell(clean(cell.text), cell.style)


def plain(text: str, style: str) -> str:  # noqa: ARG001 # a `Paint` that uses no colours
    return text


def table_lines(columns: Sequence[Column], rows: Sequence[Row], width: int | None, paint: Paint = plain) -> list[str]:
    """The heads and the rows; without a width nothing is shortened, and an empty cell is `-`: a line can be split."""
    cells = [[_cell(value) for value in row] for row in rows]
    if width is None:
        cells = [[cell if cell.text else Cell("-") for cell in line] for line in cells]
    naturals = [max((columns_of(line[i].text) for line in cells), default=0) for i in range(len(columns))]
    kept = list(range(len(columns))) if width is None else shown(columns, naturals, width)
    chosen = [columns[i] for i in kept]
    widths = [max(naturals[i], columns_of(columns[i].title)) for i in kept]
    if width is not None:
        widths = fit(widths, [column.flex for column in chosen], width - len(_GAP) * (len(kept) - 1))
    heads = [Cell(column.title, "bold") for column in chosen]
    lines = [_line(heads, chosen, widths, paint)]
    for row in cells:
        lines += [_line(line, chosen, widths, paint) for line in _laid_out([row[i] for i in kept], chosen, widths)]
    return lines


def _laid_out(row: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int]) -> list[list[Cell]]:
    """One line of cells, or several if something in it is broken."""
    parts = [
        [Cell(text, cell.style) for text in (broken(cell.text, width) if column.wrap else (cell.text,))]
        for cell, column, width in zip(row, columns, widths, strict=True)
    ]
    return [list(line) for line in zip_longest(*parts, fillvalue=Cell(""))]


def _line(cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], paint: Paint) -> str:
    parts = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        text = shortened(cell.text, width)
        before, after = filled(text, column.right, width)
        parts.append(before + paint(text, cell.style) + after)
    return _GAP.join(parts).rstrip()


def fit(naturals: Sequence[int], flex: Sequence[bool], room: int) -> list[int]:
    """Widths that together take at most `room`: the widest flexible column gives way first, down to a few letters."""
    widths = list(naturals)
    while sum(widths) > room:
        candidates = [i for i, f in enumerate(flex) if f and widths[i] > _LEAST]
        if not candidates:
            break
        widths[max(candidates, key=lambda i: widths[i])] -= 1
    return widths


def shown(columns: Sequence[Column], naturals: Sequence[int], width: int) -> list[int]:
    """The columns for which there is room; one in which nothing stands (natural width 0) is left out first."""
    kept = [i for i in range(len(columns)) if naturals[i] or not columns[i].need]
    while _least(columns, naturals, kept) > width:
        candidates = [i for i in kept if columns[i].need]
        if not candidates:
            break
        kept.remove(max(candidates, key=lambda i: columns[i].need))
    return kept


def _least(columns: Sequence[Column], naturals: Sequence[int], kept: Sequence[int]) -> int:
    widths = [min(naturals[i], columns[i].keep) if columns[i].flex else naturals[i] for i in kept]
    titles = [len(columns[i].title) for i in kept]
    return sum(map(max, widths, titles)) + len(_GAP) * (len(kept) - 1)
