"""One description of a table, two looks: fitted to a terminal's width, or whole and plain for a pipe."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from schedulearn.cli.view.words import clean

if TYPE_CHECKING:
    from rich.table import Table


_GAP = "  "
_LEAST = 8  # letters that a shortened column keeps
_READABLE = 20  # letters of a column that should be left before another one is left out for it


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False  # numbers are aligned at the right
    flex: bool = False  # may be shortened on a terminal
    need: int = 0  # may be left out where there is no room: the one that needs most goes first


class Cell(NamedTuple):
    text: str
    style: str = ""


Row = Sequence[Cell | str]


def _cell(value: Cell | str) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    return Cell(clean(cell.text), cell.style)


def plain_table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Aligned text without colours, lines or shortening. An empty cell is `-`, so that a line splits into columns."""
    lines = [[c.title for c in columns], *([_cell(v).text or "-" for v in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        _GAP.join(
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    )


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
    widths = [min(naturals[i], _READABLE) if columns[i].flex else naturals[i] for i in kept]
    titles = [len(columns[i].title) for i in kept]
    return sum(map(max, widths, titles)) + len(_GAP) * (len(kept) - 1)


def rich_table(columns: Sequence[Column], rows: Sequence[Row], width: int) -> "Table":
    """For a terminal of this width."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [[_cell(value) for value in row] for row in rows]
    naturals = [max((cell_len(line[i].text) for line in cells), default=0) for i in range(len(columns))]
    kept = shown(columns, naturals, width)
    wanted = [max(naturals[i], cell_len(columns[i].title)) for i in kept]
    widths = fit(wanted, [columns[i].flex for i in kept], width - len(_GAP) * (len(kept) - 1))
    table = Table(box=None, padding=(0, len(_GAP), 0, 0), pad_edge=False, header_style="bold")
    for i, column_width in zip(kept, widths, strict=True):
        justify: Literal["left", "right"] = "right" if columns[i].right else "left"
        table.add_column(columns[i].title, justify=justify, no_wrap=True, overflow="ellipsis", width=column_width)
    for line in cells:
        table.add_row(*(Text(line[i].text, style=line[i].style) for i in kept))
    return table
