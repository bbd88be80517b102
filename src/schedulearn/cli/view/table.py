"""One description of a table, two looks: fitted to a terminal's width, or whole and plain for a pipe."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from schedulearn.cli.view.words import clean

if TYPE_CHECKING:
    from rich.table import Table


_GAP = "  "
_LEAST = 8  # letters that a shortened column keeps


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False  # numbers are aligned at the right
    flex: bool = False  # may be shortened on a terminal
    need: int = 0  # left out on a terminal narrower than this


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


def rich_table(columns: Sequence[Column], rows: Sequence[Row], width: int) -> "Table":
    """For a terminal of this width."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    shown = [i for i, column in enumerate(columns) if column.need <= width]
    cells = [[_cell(row[i]) for i in shown] for row in rows]
    naturals = [
        max([cell_len(columns[i].title), *(cell_len(line[k].text) for line in cells)]) for k, i in enumerate(shown)
    ]
    widths = fit(naturals, [columns[i].flex for i in shown], width - len(_GAP) * (len(shown) - 1))
    table = Table(box=None, padding=(0, len(_GAP), 0, 0), pad_edge=False, header_style="bold")
    for i, column_width in zip(shown, widths, strict=True):
        justify: Literal["left", "right"] = "right" if columns[i].right else "left"
        table.add_column(columns[i].title, justify=justify, no_wrap=True, overflow="ellipsis", width=column_width)
    for line in cells:
        table.add_row(*(Text(cell.text, style=cell.style) for cell in line))
    return table
