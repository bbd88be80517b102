"""Tables of the page: each column makes its own cells."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from schedulearn.dashboard.views.markup import Child, Safe, el


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    cell: Callable[[Any], Child]  # of what a row shows
    kind: str = ""  # classes: `num` to the right, `w1` and `w2` only where there is room
    sort: str = ""  # what the service calls it, if the table can be sorted by it


def head_of(column: Column) -> Safe:
    return el("th", column.title, class_=column.kind or None, scope="col")


def table(
    columns: Sequence[Column], things: Iterable[Any], label: str, head: Callable[[Column], Safe] = head_of
) -> Safe:
    """A row for each thing."""
    rows = [el("tr", [_cell(column, thing) for column in columns]) for thing in things]
    return whole_table([head(column) for column in columns], rows, label)


def whole_table(heads: Sequence[Safe], rows: Sequence[Safe], label: str) -> Safe:
    inside = el("table", el("thead", el("tr", heads)), el("tbody", rows), aria_label=label)
    return el("div", inside, class_="scroll")


def _cell(column: Column, thing: Any) -> Safe:
    """With the column's title: where there is little room, it stands in the cell itself."""
    cell = column.cell(thing)
    return el(
        "td", cell, class_=column.kind or None, data_label=column.title if "num" in column.kind and cell else None
    )
