"""The table of all jobs: one page of it, with what it is filtered and sorted by."""

from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import parse_qs, urlencode

from schedulearn.dashboard.views.markup import Child, Safe, el, join
from schedulearn.dashboard.views.overview import metric_of, progress_of
from schedulearn.dashboard.views.parts import START, cell_of, empty, job_link, pill, since, spark, whole_table
from schedulearn.wire import types
from schedulearn.wire.words import STATES, duration, why

SIZE = 50  # rows of a page
_GROUPS = ("active", "finished", *STATES)
# title, what it is sorted by ("": nothing), classes
_COLUMNS = (
    ("Job", "id", "key"), ("Name", "name", "grow"), ("User", "user", "w2"), ("State", "state", ""),
    ("Priority", "priority", "num w1"), ("Progress", "", "w2"), ("Metric", "", "num"), ("Curve", "", "w2"),
    ("Waited", "", "num w1"), ("Ran", "", "num"), ("Submitted", "submitted_at", "num w2"), ("Why", "", "why w1"),
)  # fmt: skip
_SORTS = frozenset(sort for _, sort, _ in _COLUMNS if sort)
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
    head = el("tr", [_head(column, wanted) for column in _COLUMNS])
    body = [el("tr", _row(job, now)) for job in page["jobs"]]
    return join(whole_table(head, body, "Jobs"), pager(page["total"], wanted))


def _head(column: tuple[str, str, str], wanted: Wanted) -> Safe:
    title, sort, kind = column
    if not sort:
        return el("th", title, scope="col", class_=kind or None)
    mine = wanted.sort == sort
    arrow = el("span", " ▾" if wanted.order == "desc" else " ▴", aria_hidden="true") if mine else None
    link = el("a", title, arrow, href=wanted.sorted_by(sort).address, data_go=True)
    direction = ("descending" if wanted.order == "desc" else "ascending") if mine else None
    return el("th", link, scope="col", class_=kind or None, aria_sort=direction)


def _row(job: types.Job, now: datetime) -> list[Safe]:
    progress = job["progress"]
    cells: tuple[Child, ...] = (
        job_link(job["id"]),
        el("a", job["name"], href=f"/jobs/{job['id']}", class_="name", title=job["name"]),
        job["user"],
        pill(job["state"]),
        job["priority"],
        progress_of(job),
        metric_of(job),
        spark(progress["spark"], job["id"]) if progress else "",
        duration(round(job["wait_seconds"])),
        duration(round(job["run_seconds"])) if job["started_at"] else "",
        f"{since(job['submitted_at'], now)} ago",
        why(job),
    )
    return [cell_of(cell, (title, kind)) for cell, (title, _, kind) in zip(cells, _COLUMNS, strict=True)]


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
