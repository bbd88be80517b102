"""The table of all jobs: one page of it, with what it is filtered and sorted by."""

from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import parse_qs, urlencode

from schedulearn.dashboard.views.columns import JOBS, Shown
from schedulearn.dashboard.views.markup import Safe, el, join
from schedulearn.dashboard.views.parts import START, empty
from schedulearn.dashboard.views.table import Column, head_of, table
from schedulearn.wire import types
from schedulearn.wire.words import STATES

SIZE = 50  # rows of a page
_GROUPS = ("active", "finished", *STATES)
_SORTS = frozenset(column.sort for column in JOBS if column.sort)
_LARGEST = 10**9  # pages: what stands in an address may be anything


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of the table; it stands in the page's address."""

    state: str = ""  # a state, active or finished; "": all
    user: str = ""
    search: str = ""
    sort: str = "id"
    order: str = "desc"
    page: int = 1

    @classmethod
    def parse(cls, query: str) -> "Wanted":
        """What makes no sense is left out."""
        given = {name: values[0] for name, values in parse_qs(query.removeprefix("?")).items()}
        state, sort, order, page = (given.get(name, "") for name in ("state", "sort", "order", "page"))
        return cls(
            state if state in _GROUPS else "",
            given.get("user", "")[:200],
            given.get("search", "")[:200],
            sort if sort in _SORTS else "id",
            order if order in ("asc", "desc") else "desc",
            min(max(1, int(page)), _LARGEST) if page.isascii() and page.isdigit() else 1,
        )

    @property
    def address(self) -> str:
        usual = Wanted()
        names = ("state", "user", "search", "sort", "order", "page")
        told = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(usual, name)}
        return "/jobs" + (f"?{urlencode(told)}" if told else "")

    @property
    def offset(self) -> int:
        return (self.page - 1) * SIZE

    def sorted_by(self, column: str) -> "Wanted":
        """By another column; by the same one the other way round."""
        other = "asc" if self.sort == column and self.order == "desc" else "desc"
        return replace(self, sort=column, order=other if self.sort == column else "asc", page=1)


def filters(wanted: Wanted) -> Safe:
    choice = el(
        "select",
        [el("option", group or "all", value=group, selected=group == wanted.state) for group in ("", *_GROUPS)],
        name="state",
        id="state",
    )
    search = el("input", type="search", id="search", name="search", value=wanted.search, placeholder="a part of it")
    return el(
        "form",
        el("span", el("label", "State", for_="state"), choice),
        el("span", el("label", "User", for_="user"), el("input", id="user", name="user", value=wanted.user, size=10)),
        el("span", el("label", "Name", for_="search"), search),
        el("button", "Show", type="submit", class_="primary"),
        class_="filters",
        action="/jobs",
        data_go=True,
    )


def jobs_table(page: types.JobPage, wanted: Wanted, now: datetime) -> Safe:
    if not page["jobs"]:
        if wanted != Wanted():
            return empty("No job matches. ", el("a", "show all", href="/jobs"))
        return empty("No job yet. Start one: ", START)
    shown = [Shown(job, now) for job in page["jobs"]]
    whole = table(JOBS, shown, "Jobs", lambda column: _head(column, wanted))
    return join(whole, pager(page["total"], wanted))


def _head(column: Column, wanted: Wanted) -> Safe:
    if not column.sort:
        return head_of(column)
    mine = wanted.sort == column.sort
    arrow = el("span", " ▾" if wanted.order == "desc" else " ▴", aria_hidden="true") if mine else None
    link = el("a", column.title, arrow, href=wanted.sorted_by(column.sort).address, data_go=True)
    direction = ("descending" if wanted.order == "desc" else "ascending") if mine else None
    return el("th", link, scope="col", class_=column.kind or None, aria_sort=direction)


def pager(total: int, wanted: Wanted) -> Safe:
    """`51–100 of 10,000`, and the way to the others."""
    last = max(1, -(-total // SIZE))
    first, end = wanted.offset + 1, min(total, wanted.offset + SIZE)

    def to(page: int, words: str, label: str) -> Safe:
        if not 1 <= page <= last or page == wanted.page:
            return el("span", words, class_="step", aria_hidden="true")
        return el("a", words, class_="step", href=replace(wanted, page=page).address, data_go=True, aria_label=label)

    return el(
        "nav",
        to(1, "«", "first page"),
        to(wanted.page - 1, "‹", "previous page"),
        el("span", f"{first:,}–{end:,} of {total:,}"),
        to(wanted.page + 1, "›", "next page"),
        to(last, "»", "last page"),
        class_="pager",
        aria_label="Pages of the table",
    )
