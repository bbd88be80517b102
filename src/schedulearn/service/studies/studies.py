"""Studies: comparisons of policies that run beside the service, and reports that were put into its folder.

Each is a folder below `reports` in the data folder. `report.html` is what to read, `report.json` what it says in short;
a comparison that was asked for here has its own story in `study.json`.
"""

import json
import pickle
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.states import FINISHED, JobState
from schedulearn.service.common.auth import Caller
from schedulearn.service.studies.comparison import PROGRESS, STORY, Comparison, Limits
from schedulearn.service.studies.present import present_of
from schedulearn.service.studies.replayed import history_of, write_servers
from schedulearn.store import Store

REPORT, SUMMARY = "report.html", "report.json"
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
CLUSTER = r"[1-9][0-9]{0,3}x[1-9][0-9]{0,2}c?"
MOST_TRACE = 800_000  # characters of an uploaded trace
_MOST_ROWS = 20_000  # jobs of one
_MOST_HISTORY = 2_000  # jobs of the history that are replayed: the newest
_MOST_AT_ONCE = 2  # comparisons of all users
_MOST_KEPT = 20  # of one user: with one more the oldest goes
_MOST_LISTED = 500
_PRESENT = "present.pickle"  # read and removed by the process that it is for
_MOST_SUMMARY, _MOST_REPORT = 1_000_000, 30_000_000  # bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """A comparison as it is asked for."""

    policies: Sequence[str]
    trace: str | None = None  # None: the service's own history
    trace_name: str = ""  # for a person
    cluster: str = ""  # "": the service's own servers
    now: bool = False  # instead: when would the jobs there are now end, where they are?


@dataclass(frozen=True, slots=True)
class Study:
    """One report, or one in the making."""

    name: str
    kind: str  # comparison | what-if | experiment | report
    title: str
    about: str
    user: str  # "": it was put there
    owner: int | None  # the user's id
    state: str  # running | done | failed | cancelled
    problem: str
    created_at: float
    ended_at: float | None
    has_report: bool
    progress: Mapping[str, Any] | None  # {"policy", "done", "total"} while it runs
    summary: Mapping[str, Any] | None  # {"columns", "rows", "best"}
    prediction: Mapping[str, Any] | None = None  # see `wire.types.Prediction`


@dataclass(slots=True)
class Story:
    """What is kept of a comparison that was asked for here."""

    user: str
    title: str
    created_at: float
    owner: int | None = None  # the user's id
    state: str = "running"
    problem: str = ""
    ended_at: float | None = None
    policies: list[str] = field(default_factory=list)
    kind: str = "comparison"

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Story | None":
        known = {each.name for each in fields(cls)}
        try:
            return cls(**{name: value for name, value in content.items() if name in known}) if content else None
        except TypeError:
            return None  # it was written by hand, or by another version


class Studies:
    """All of them. All users see them; the user that asked for one, or an administrator, may end or delete it."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        policies: Callable[[], Mapping[str, Any]],
        clock: Callable[[], float],
        limits: Limits | None = None,
        has_checkpoint: Callable[[JobId], bool] = lambda _: False,
    ) -> None:
        """`policies` are those there are, by name."""
        self._has_checkpoint = has_checkpoint
        self._store, self._folder, self._policies, self._clock = store, folder, policies, clock
        self._limits = limits or Limits()
        self._running: dict[str, Comparison] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """End those that run: how they end would not be told."""
        with self._lock:
            running = list(self._running.values())
        for one in running:
            one.end("the service was stopped", "failed")

    # --- reading

    def all(self) -> list[Study]:
        """The newest first."""
        names = [path.name for path in self._folder.glob("*") if re.fullmatch(NAME, path.name)]
        found = [study for name in names if (study := self._read(name)) is not None]
        return sorted(found, key=lambda study: -study.created_at)[:_MOST_LISTED]

    def find(self, name: str) -> Study:
        if (study := self._read(name)) is None:
            raise NotFound(f"there is no report {name}")
        return study

    def report(self, name: str) -> bytes:
        """The report itself, as HTML."""
        path = self._inside(name) / REPORT
        if not self.find(name).has_report or not path.resolve().is_relative_to(self._folder.resolve()):
            raise NotFound(f"{name} has no report (yet)")
        if path.stat().st_size > _MOST_REPORT:
            raise NotFound(f"the report of {name} is too large to be shown: read it in the data folder")
        return path.read_bytes()

    def history(self, most: int) -> Iterator[str]:
        """What the service has run, as a workload for the simulator: a line for each of the newest finished jobs."""
        return history_of(self._store, most)

    # --- asking

    def compare(self, caller: Caller, wanted: Wanted) -> Study:
        """Begin to replay a workload under several policies."""
        caller.must_be_person()
        self._check(wanted)
        with self._lock:
            self._check_free(caller)
            name, folder = self._make_folder()
            kind = "what-if" if wanted.now else "comparison"
            story = Story(
                caller.name, _title(wanted), self._clock(), caller.id, policies=list(wanted.policies), kind=kind
            )
            (folder / STORY).write_text(json.dumps(asdict(story)), "utf-8")
            command = self._what_if(folder, wanted) if wanted.now else self._command(folder, wanted)
            self._running[name] = Comparison(folder, command, self._limits, self._clock, lambda: self._ended(name))
        self._store.note_act("study.compare", f"comparison {name}", caller.name, policies=list(wanted.policies))
        self._drop_oldest(caller)
        return self.find(name)

    def cancel(self, caller: Caller, name: str) -> Study:
        self._own(caller, name)
        running = self._running.get(name)
        if running is None:
            raise Conflict(f"{name} is not running")
        running.end(f"cancelled by {caller.name}", "cancelled")
        study = self.find(name)
        self._store.note_act("study.cancel", f"comparison {name}", study.user)
        return study

    def delete(self, caller: Caller, name: str) -> None:
        self._own(caller, name)
        self._store.note_act("study.delete", f"comparison {name}", self.find(name).user)
        if running := self._running.get(name):
            running.end("deleted", "cancelled")
        shutil.rmtree(self._inside(name), ignore_errors=True)

    # --- helpers

    def _check(self, wanted: Wanted) -> None:
        known = self._policies()
        if not wanted.policies:
            raise InvalidSpec("policies", "no policy is named", ", ".join(known))
        for name in wanted.policies:
            if name not in known:
                raise InvalidSpec("policies", f"unknown policy {name!r}", ", ".join(known))
        if wanted.now:
            self._check_now(wanted)
            return
        if wanted.cluster and not re.fullmatch(CLUSTER, wanted.cluster):
            raise InvalidSpec(
                "cluster", f"{wanted.cluster!r} is not a cluster", "such as 16x4, 2x8c; empty: our servers"
            )
        if wanted.trace is not None and not wanted.trace.strip():
            raise InvalidSpec("trace", "it is empty", "a table or JSON lines, or null for the history")
        if wanted.trace is not None and len(wanted.trace.splitlines()) > _MOST_ROWS:
            raise InvalidSpec("trace", "it has too many rows", f"at most {_MOST_ROWS:,} jobs")
        if wanted.trace is None and not any(self._store.list_jobs(FINISHED, limit=1)[0]):
            raise InvalidSpec("trace", "the service has not run any job to its end yet", "a trace of yours")

    def _check_now(self, wanted: Wanted) -> None:
        for name in ("trace", "cluster"):
            if getattr(wanted, name):
                raise InvalidSpec(name, "the queue as it is now is compared where it is", "leave it out, or now: false")
        if not any(self._store.list_jobs([state for state in JobState if state not in FINISHED], limit=1)[0]):
            raise InvalidSpec("now", "no job runs or waits", "a time when there are jobs")

    def _check_free(self, caller: Caller) -> None:
        """With the lock held."""
        if any(one.owner == caller.id for one in self._running.values()):
            raise Conflict("a comparison of yours is running: wait for it, or cancel it")
        if len(self._running) >= _MOST_AT_ONCE:
            raise Conflict("others are comparing policies just now: try again in a few minutes")

    def _what_if(self, folder: Path, wanted: Wanted) -> list[str]:
        present = present_of(self._store, self._clock(), self._has_checkpoint)
        (folder / _PRESENT).write_bytes(pickle.dumps(present))
        return ["schedulearn.lab.sim.what_if", _PRESENT, *dict.fromkeys(wanted.policies)]

    def _command(self, folder: Path, wanted: Wanted) -> list[str]:
        """With files by names inside of the folder, which is where it runs."""
        if wanted.trace is None:
            trace = "history.jsonl"
            (folder / trace).write_text("".join(self.history(_MOST_HISTORY)), "utf-8")
        else:
            trace = "trace.csv"
            (folder / trace).write_text(wanted.trace, "utf-8")
        cluster = wanted.cluster or write_servers(folder, self._store.list_nodes())
        policies = ",".join(dict.fromkeys(wanted.policies))
        given = ["--trace", trace, "--cluster", cluster, "--policies", policies]
        return ["schedulearn.cli", "compare", *given, "--out", ".", "--processes", "1", "--progress", PROGRESS]

    def _make_folder(self) -> tuple[str, Path]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        numbers = [int(path.name.rpartition("-")[2]) for path in self._folder.glob("comparison-[0-9]*")
                   if path.name.rpartition("-")[2].isdigit()]  # fmt: skip
        name = f"comparison-{max(numbers, default=0) + 1}"
        folder = self._folder / name
        folder.mkdir(mode=0o700)
        return name, folder

    def _ended(self, name: str) -> None:
        with self._lock:
            self._running.pop(name, None)

    def _drop_oldest(self, caller: Caller) -> None:
        """Of the caller's own: no user's are pushed out by others."""
        made = [study for study in self.all() if study.user and study.owner == caller.id and study.state != "running"]
        for study in made[_MOST_KEPT:]:
            shutil.rmtree(self._inside(study.name), ignore_errors=True)

    def _own(self, caller: Caller, name: str) -> None:
        study = self.find(name)
        if study.user:
            caller.must_own(study.owner, study.user, f"the comparison {name}")
        else:
            caller.must_be_admin()

    def _inside(self, name: str) -> Path:
        if not re.fullmatch(NAME, name):
            raise NotFound(f"there is no report {name}")
        return self._folder / name

    def _read(self, name: str) -> Study | None:
        folder = self._inside(name)
        with self._lock:  # one that is just being begun is not seen half-way
            running, story = self._running.get(name), Story.of(_json(folder / STORY))
        page, told = folder / REPORT, _json(folder / SUMMARY)
        if folder.is_symlink() or (story is None and not page.is_file()):
            return None
        if story is None:
            return _found(name, page, told)
        if running:  # also if its story says otherwise already: another one may not be begun yet
            story.state, story.problem = "running", ""
        elif story.state == "running":  # it was killed together with the service
            story.state, story.problem = "failed", "the service ended before it was done"
        runs = story.state == "running"
        return Study(
            name=name,
            kind=story.kind,
            title=story.title,
            about=str(told.get("about") or ", ".join(story.policies)),
            user=story.user,
            owner=story.owner,
            state=story.state,
            problem=story.problem,
            created_at=story.created_at,
            ended_at=story.ended_at,
            has_report=page.is_file() and not runs,
            progress=running.progress() if running and runs else None,
            summary=_table(told),
            prediction=told.get("prediction") if not runs else None,
        )


def _title(wanted: Wanted) -> str:
    if wanted.now:
        return "the queue now"
    source = "history" if wanted.trace is None else wanted.trace_name or "trace"
    return f"{source} on {wanted.cluster or 'our servers'}"


def _found(name: str, page: Path, told: Mapping[str, Any]) -> Study:
    """A report that was put there."""
    made, kind = page.stat().st_mtime, str(told.get("kind") or "report")
    title, about = str(told.get("title") or name), str(told.get("about") or "")
    return Study(name, kind, title, about, "", None, "done", "", made, made, True, None, _table(told))


def _table(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """The figures as texts; None if there are none, or not in this form."""
    columns, rows, best = told.get("columns"), told.get("rows"), told.get("best") or []
    if not isinstance(columns, list) or not isinstance(rows, list) or not isinstance(best, list):
        return None
    if not all(isinstance(row, list) and len(row) == len(columns) for row in [*rows, *best]):
        return None
    texts = [[str(cell) for cell in row] for row in rows]
    return {"columns": [str(c) for c in columns], "rows": texts, "best": [[bool(b) for b in row] for row in best]}


def _json(path: Path) -> dict[str, Any]:
    """What a small file says; nothing if it is not there, or no such file."""
    try:
        content = json.loads(path.read_bytes()) if path.stat().st_size < _MOST_SUMMARY else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
