"""One method for each thing that the service can do."""

import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from schedulearn.client.errors import (
    ApiError,
    ClientError,
    MaybeSubmitted,
    NoAnswer,
    NoSuchJob,
    ServiceUnreachable,
    WaitTimeout,
)
from schedulearn.client.running import Running
from schedulearn.client.settings import find_service
from schedulearn.client.streams import LogFollower, Patience, follow_events, surely
from schedulearn.client.submission import fill_env, working_folder
from schedulearn.client.transport import Query, Stream, Transport
from schedulearn.client.unpack import unpack
from schedulearn.wire import types

if TYPE_CHECKING:
    from schedulearn.client.snapshot import Snapshot

T = TypeVar("T")
_PAGE = 100  # things in one answer
_KEY = re.compile("[!-~]{1,200}")  # as the service takes it
PATIENCE = 300.0  # seconds for which a call that follows something goes on without the service


def new_key() -> str:
    """One for each job that is to be submitted."""
    return uuid.uuid4().hex


class Client:
    """A connection to the service. For one thread; close it, or use it in a `with` statement.

    Without arguments it talks to the service of `SCHEDULEARN_URL` and `SCHEDULEARN_TOKEN`, else to the one
    that runs on this machine (`SCHEDULEARN_DATA`, `~/.schedulearn`). Every method raises ApiError if the
    service refuses, ServiceUnreachable if it does not answer, NoSuchJob if there is no such job.
    """

    def __init__(self, url: str | None = None, token: str | None = None, timeout: float = 30.0) -> None:
        address = find_service(url, token)
        self._http = Transport(address.url, address.token, timeout)
        self.url = self._http.url

    def close(self) -> None:
        self._http.close()

    def send_along(self, headers: Mapping[str, str]) -> None:
        """Headers that go with every request from now on, instead of those before."""
        self._http.more = dict(headers)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The service

    def health(self) -> types.Health:
        return self._get(types.Health, "/health")

    def whoami(self) -> types.User:
        return self._get(types.User, "/whoami")

    def overview(self) -> types.Overview:
        """Nodes and which job holds what, running jobs, the head of the queue with reasons, what has just ended."""
        return self._get(types.Overview, "/overview")

    def timeline(self, since: str | None = None, until: str | None = None, limit: int | None = None) -> types.Timeline:
        """Which worker ran where and when, between two times; within the last hour unless told otherwise."""
        return self._get(types.Timeline, "/timeline", {"since": since, "until": until, "limit": limit})

    def job_schema(self) -> dict[str, Any]:
        """The JSON Schema of a job spec."""
        return self._get(dict[str, Any], "/schema/job")

    # Jobs

    def submit(self, spec: Mapping[str, Any], workdir: Path | None = None, key: str = "") -> types.Job:
        """Pack the working folder, send it if the service does not have it yet, and queue the job.

        `workdir` stands before the spec's own `workdir`, which defaults to the present folder; null in the
        spec means an empty run folder. Null values in `env` are taken from the caller's environment.
        MaybeSubmitted if no answer came: the same with its `key` once more makes no second job.
        """
        body = fill_env(spec, os.environ)
        folder = working_folder(spec, workdir)
        body.pop("workdir", None)
        if folder:
            from schedulearn.client.snapshot import make_snapshot  # what packs is loaded only where something is packed

            with make_snapshot(folder) as snapshot:
                self.upload(snapshot)
                body |= {"workdir": str(folder), "snapshot": snapshot.sha256}
        return self._queue(body, key)

    def resubmit(self, spec: Mapping[str, Any], key: str = "") -> types.Job:
        """A spec as the service gave it, changed or not: its snapshot is there already, and no folder is packed."""
        return self._queue(dict(spec), key)

    def _queue(self, body: Mapping[str, Any], key: str) -> types.Job:
        """Exactly once: should the answer be lost on the way, the same is sent again with the same key."""
        key = key or new_key()
        if not _KEY.fullmatch(key):
            raise ClientError("key: it cannot be sent (allowed: 1 to 200 ASCII characters, no spaces)")
        headers = {"Idempotency-Key": key}
        try:
            return surely(lambda: self._call(types.Job, "POST", "/jobs", body=body, headers=headers))
        except NoAnswer as problem:
            raise MaybeSubmitted(str(problem), key) from problem

    def check(self, spec: Mapping[str, Any], workdir: Path | None = None) -> types.Checked:
        """What `submit` would queue, checked and with all defaults filled in. Nothing is packed or queued."""
        working_folder(spec, workdir)
        body = fill_env(spec, os.environ)
        body.pop("workdir", None)  # it means nothing to the service without its snapshot
        return self._call(types.Checked, "POST", "/jobs", {"dry_run": True}, body=body)

    def recheck(self, spec: Mapping[str, Any]) -> types.Checked:
        """What `resubmit` would queue, checked and with all defaults filled in. Nothing is queued."""
        return self._call(types.Checked, "POST", "/jobs", {"dry_run": True}, body=dict(spec))

    def upload(self, snapshot: "Snapshot") -> bool:
        """Send a packed folder; False if the service has it already."""
        path = f"/snapshots/{snapshot.sha256}"
        try:
            surely(lambda: self._http.request("HEAD", path))
            return False
        except ApiError as problem:
            if problem.status != 404:
                raise
        surely(lambda: self._http.request("PUT", path, upload=snapshot.path))
        return True

    def jobs(
        self,
        state: Collection[str] = (),
        user: str | None = None,
        name: str | None = None,
        sort: str | None = None,
        order: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        search: str | None = None,
    ) -> types.JobPage:
        """One page of jobs. States may also be the groups `active` and `finished`; `search` looks into names."""
        query = {"state": sorted(state), "user": user, "name": name, "search": search, "sort": sort, "order": order}
        return self._get(types.JobPage, "/jobs", {**query, "limit": limit, "offset": offset})

    def job(self, job: int) -> types.Job:
        return self._of_job(types.Job, "GET", job)

    def update(self, job: int, **changes: int | float | str | Mapping[str, Any] | None) -> types.Job:
        """Change `priority`, `deadline`, `time_limit`, `cpus_limit`, `workers` ("2..6") or `target` ({"loss": 0.05});
        None takes a deadline, a limit or a target away."""
        return self._of_job(types.Job, "PATCH", job, body=changes)

    def delete(self, job: int) -> None:
        """Stop it at once if it runs, then forget it."""
        self._of_job(types.Job, "DELETE", job)

    def cancel(self, job: int) -> types.Job:
        return self._of_job(types.Job, "POST", job, "/cancel")

    def pause(self, job: int) -> types.Job:
        return self._of_job(types.Job, "POST", job, "/pause")

    def resume(self, job: int) -> types.Job:
        return self._of_job(types.Job, "POST", job, "/resume")

    def migrate(self, job: int, node: str) -> types.Job:
        """Let it save, stop, and go on over there."""
        return self._of_job(types.Job, "POST", job, "/migrate", body={"node": node})

    def possible_moves(self, job: int) -> list[types.PossibleMove]:
        """Where it could migrate to now, and why not to the other nodes."""
        return self._of_job(types.MovePage, "GET", job, "/migrate")["moves"]

    def wait(self, job: int, timeout: float | None = None, patience: float = PATIENCE) -> types.Job:
        """The job once it is finished. WaitTimeout after `timeout` seconds; a restart of the service is survived."""
        deadline = None if timeout is None else time.monotonic() + timeout
        trying = Patience(patience)
        pause = 0.05
        while True:
            try:
                found = self.job(job)
                trying.met()
                if found["state"] in types.FINISHED:
                    return found
            except ServiceUnreachable as problem:
                trying.endure(problem)
            left = pause if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"job {job} did not end within {timeout:g} seconds; it goes on")
            time.sleep(min(pause, left))
            pause = min(1.5 * pause, 1.0)

    # What a job tells

    def logs(
        self,
        job: int,
        follow: bool = False,
        tail: int | None = None,
        offset: int | None = None,
        worker: int = 0,
        attempt: int | None = None,
        patience: float = PATIENCE,
    ) -> Iterator[bytes]:
        """The output of one worker, as raw bytes; of the newest attempt unless one is named.

        With `follow` it goes on until the job is finished, into later attempts too (unless one is named), and
        survives a restart of the service: every byte comes once.
        """
        if not follow:
            query = {"tail": tail, "offset": offset, "worker": worker, "attempt": attempt}
            with self._job_stream(job, "/logs", query) as stream:
                yield from stream.chunks()
            return
        follower = LogFollower(self._http, self.job, job, worker)
        follower.attempt = attempt or self.job(job)["attempt"]
        follower.offset = offset or 0
        if tail is not None and follower.attempt:
            query = {"tail": tail, "worker": worker, "attempt": follower.attempt}
            with self._job_stream(job, "/logs", query) as stream:
                yield from stream.chunks()
                follower.offset = int(stream.headers.get("X-Next-Offset") or 0)
        yield from follower.follow(attempt is not None, patience)

    def log_part(
        self, job: int, attempt: int, worker: int = 0, offset: int | None = None, tail: int | None = None
    ) -> tuple[bytes, int]:
        """What there is of an output from an offset on, or its last lines; and the offset to go on from."""
        query = {"attempt": attempt, "worker": worker, "offset": offset, "tail": tail}
        with self._job_stream(job, "/logs", query) as stream:
            data = b"".join(stream.chunks())
            return data, int(stream.headers.get("X-Next-Offset") or (offset or 0) + len(data))

    def metrics(
        self, job: int, name: str | None = None, max_points: int | None = None, most: int = 1000
    ) -> list[types.Series]:
        """The curves of a job by name, `most` of them, thinned to `max_points` each."""
        return list(self._in_pages(job, "/metrics", "series", {"name": name, "max_points": max_points}, most))

    def main_metrics(self, job: types.Job, max_points: int | None = None, most: int = 100) -> list[types.Series]:
        """As many of a job's curves as can be looked at, with that of its own metric among them."""
        found = self.metrics(job["id"], max_points=max_points, most=most)
        if len(found) < most:
            return found
        name = job["spec"]["metric"]["name"]
        others = [series for series in found if series["name"] != name]
        return [*others[: most - 1], *self.metrics(job["id"], name, max_points)]

    def usage(
        self,
        job: int,
        attempt: int | None = None,
        since: str | None = None,
        max_points: int | None = None,
        most: int = 10_000,
    ) -> list[types.WorkerUsage]:
        """What each worker uses over time, of so many workers, thinned; of the newest attempt unless one is named."""
        query = {"attempt": attempt, "since": since, "max_points": max_points}
        return list(self._in_pages(job, "/usage", "workers", query, most))

    def job_events(self, job: int) -> list[types.Event]:
        """The story of one job, from its beginning."""
        part = "/events"
        return list(self._pages(lambda after: self._of_job(types.EventPage, "GET", job, part, {"after": after}), None))

    def events(
        self, after: int | None = None, follow: bool = False, job: int | None = None, patience: float = PATIENCE
    ) -> Iterator[types.Event]:
        """What happened after a serial number (None: from the beginning), of all jobs or of one.

        With `follow` it is what happens from there (None: from now) on, for ever, across restarts of the service.
        """
        if follow:
            return follow_events(self._http, after, job, patience)
        query = {"job": job, "follow": False}
        return self._pages(lambda last: self._get(types.EventPage, "/events", {**query, "after": last}), after)

    def next_event(
        self, job: int, after: int, wanted: Callable[[types.Event], bool], patience: float = PATIENCE
    ) -> types.Event:
        """The first event of a job after that serial number which is `wanted`. A restart of the service is survived;
        NoSuchJob if the job is deleted meanwhile."""
        trying = Patience(patience)
        while True:
            try:
                for event in self.events(after, job=job):
                    after = event["serial"]
                    if wanted(event):
                        return event
                self.job(job)
                trying.met()
            except ServiceUnreachable as problem:
                trying.endure(problem)
            time.sleep(0.2)

    def explain(self, job: int) -> types.Explanation:
        """Why it waits, its position, and an estimate."""
        return self._of_job(types.Explanation, "GET", job, "/explain")

    def attempts(self, job: int) -> list[types.Attempt]:
        """All of them, the first one first."""
        return list(self._in_pages(job, "/attempts", "attempts", {}))

    def pull(self, job: int, path: str | None = None, to: Path = Path()) -> list[Path]:
        """Bring the run folder of a job (or one path in it) into the folder `to`; the files that were written."""
        to.mkdir(parents=True, exist_ok=True)
        with self._job_stream(job, "/files", {"path": path}) as stream:
            return unpack(stream, to)

    def exec(self, job: int, command: Sequence[str], worker: int = 0) -> Running:
        """Run a command beside a worker of a running job: as its user, in its run folder, with its environment."""
        return Running(self._job_stream(job, "/exec", body={"command": list(command), "worker": worker}))

    # Nodes and policy

    def nodes(self) -> list[types.Node]:
        return self._get(types.NodePage, "/nodes")["nodes"]

    def add_node(
        self,
        address: str,
        name: str | None = None,
        image: str | None = None,
        gpu_type: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> types.NewNode:
        """Add a server. The service looks at its engine first, which may take a while; ApiError says what is wrong."""
        more = {"name": name, "image": image, "gpu_type": gpu_type, "labels": dict(labels or {}) or None}
        return self._call(types.NewNode, "POST", "/nodes", body=_given(address=address, **more))

    def remove_node(self, node: str, force: bool = False) -> types.Node:
        """Refused while jobs run there, unless with `force`: then they are stopped and queued again."""
        return self._call(types.Node, "DELETE", f"/nodes/{_part(node)}", {"force": force})

    def label_node(self, node: str, labels: Mapping[str, str | None]) -> types.Node:
        """Set labels; None takes one away, all others stay."""
        return self._call(types.Node, "PATCH", f"/nodes/{_part(node)}", body={"labels": dict(labels)})

    def drain(self, node: str, drain: bool = True) -> types.Node:
        """Give the node no new jobs; `drain=False` takes it back."""
        return self._call(types.Node, "PATCH", f"/nodes/{_part(node)}", body={"drain": drain})

    def policy(self) -> types.Policy:
        return self._get(types.Policy, "/policy")

    def set_policy(
        self, preset: str, stages: Mapping[str, str] | None = None, params: Mapping[str, Any] | None = None
    ) -> types.Policy:
        body = _given(preset=preset, stages=dict(stages or {}) or None, params=dict(params or {}) or None)
        return self._call(types.Policy, "PUT", "/policy", body=body)

    # Comparisons and reports

    def studies(self) -> list[types.Study]:
        """Comparisons of policies and reports of experiments, the newest first."""
        return self._get(types.StudyPage, "/studies")["studies"]

    def history(self, limit: int | None = None) -> str:
        """What the service has run, as a workload for the simulator: a line of JSON for each finished job."""
        answer = self._http.request("GET", "/history", {"limit": limit})
        return answer.body.decode()

    def study(self, name: str) -> types.Study:
        return self._get(types.Study, f"/studies/{_part(name)}")

    def compare(
        self, policies: Sequence[str], trace: str | None = None, trace_name: str = "", cluster: str = ""
    ) -> types.Study:
        """Begin to replay the service's history, or a trace (its text), under several policies."""
        body = {"policies": list(policies), "trace": trace, "trace_name": trace_name, "cluster": cluster}
        return self._call(types.Study, "POST", "/studies", body=body)

    def what_if(self, policies: Sequence[str]) -> types.Study:
        """Begin to predict when the jobs there are now would end under these policies and under the one in force."""
        return self._call(types.Study, "POST", "/studies", body={"policies": list(policies), "now": True})

    def cancel_study(self, name: str) -> types.Study:
        return self._call(types.Study, "POST", f"/studies/{_part(name)}/cancel")

    def delete_study(self, name: str) -> None:
        self._http.request("DELETE", f"/studies/{_part(name)}")

    def report(self, name: str) -> bytes:
        """The report of a study, as HTML. Show it only where its scripts can do no harm."""
        return self._http.request("GET", f"/studies/{_part(name)}/report").body

    # Users and tokens

    def users(self) -> list[types.User]:
        return self._get(types.UserPage, "/users")["users"]

    def add_user(
        self,
        name: str,
        role: str = "user",
        uid: int | None = None,
        gid: int | None = None,
        max_priority: int | None = None,
        *,
        root: bool = False,
    ) -> types.NewUser:
        body = _given(name=name, role=role, uid=uid, gid=gid, root=root or None, max_priority=max_priority)
        return self._call(types.NewUser, "POST", "/users", body=body)

    def update_user(self, name: str, **changes: int | str | bool | None) -> types.NewUser:
        """Change `role`, `uid`, `gid`, `root` or `max_priority`."""
        return self._call(types.NewUser, "PATCH", f"/users/{_part(name)}", body=changes)

    def remove_user(self, name: str) -> None:
        self._http.request("DELETE", f"/users/{_part(name)}")

    def tokens(self) -> list[types.Token]:
        return self._get(types.TokenPage, "/tokens")["tokens"]

    def add_token(self, label: str = "", user: str | None = None) -> types.NewToken:
        """A new token; its text is shown this one time only."""
        return self._call(types.NewToken, "POST", "/tokens", body=_given(label=label, user=user))

    def login_code(self, user: str | None = None) -> types.Login:
        """A code that is good for one log-in to the page, as the caller; an administrator may ask for another user."""
        return self._call(types.Login, "POST", "/logins", body=_given(user=user))

    def log_in(self, code: str) -> types.NewToken:
        """The token that a code is good for, once. Needs no token itself."""
        return self._call(types.NewToken, "POST", "/logins/redeem", body={"code": code})

    def revoke_token(self, token: int) -> None:
        self._http.request("DELETE", f"/tokens/{token}")

    def audit(
        self,
        actor: str | None = None,
        action: str | None = None,
        object: str | None = None,
        owner: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> Iterator[types.AuditEntry]:
        """Who did what to whose things, the newest first; `limit` entries at the most (None: all). For administrators.

        `action` is one such as `job.cancel`, or its first part; `since` and `until` are ISO 8601 times.
        """
        query = {"actor": actor, "action": action, "object": object, "owner": owner, "since": since, "until": until}
        before, left = None, limit
        while left is None or left > 0:
            page = self._get(types.AuditPage, "/audit", {**query, "before": before, "limit": min(left or 500, 500)})
            yield from page["entries"]
            left = None if left is None else left - len(page["entries"])
            before = page["next"]
            if before is None:
                return

    # Notices

    def notify(self, user: str | None = None) -> types.Notify:
        """Whom you, or another user, want to be told of the ends of jobs."""
        return self._get(types.Notify, "/notify", {"user": user})

    def set_notify(self, addresses: Sequence[str], user: str | None = None) -> types.Notify:
        """Tell these, instead of those before."""
        return self._call(types.Notify, "PUT", "/notify", body=_given(addresses=list(addresses), user=user))

    def notify_secret(self, new: bool = False) -> str:
        """With which webhooks of your jobs are signed."""
        return self._call(dict[str, str], "POST" if new else "GET", "/notify/secret")["secret"]

    def test_notify(self) -> int:
        """Tell all your addresses something now; how many these are."""
        return self._call(dict[str, int], "POST", "/notify/test")["addresses"]

    # How calls are made

    def _get(self, kind: type[T], path: str, query: Query | None = None) -> T:
        return self._call(kind, "GET", path, query)

    def _call(self, _kind: type[T], method: str, path: str, query: Query | None = None, **more: Any) -> T:
        """The answer, which the service declares to be of that type; more: `body` and `headers`."""
        answer: T = self._http.request(method, path, query, **more).json()
        return answer

    def _pages(self, page: Callable[[int | None], types.EventPage], after: int | None) -> Iterator[types.Event]:
        while found := page(after)["events"]:
            yield from found
            after = found[-1]["serial"]

    def _in_pages(self, job: int, part: str, key: str, query: Query, most: int = 1_000_000) -> Iterator[Any]:
        """What a job has many of, asked for in pieces."""
        seen, total = 0, 1
        while seen < min(most, total):
            piece = {**query, "offset": seen, "limit": min(_PAGE, most - seen)}
            page = self._of_job(dict[str, Any], "GET", job, part, piece)
            if not page[key]:
                return
            yield from page[key]
            seen += len(page[key])
            total = page.get("total", seen)  # an older service gives all at once

    def _of_job(
        self, kind: type[T], method: str, job: int, part: str = "", query: Query | None = None, **more: Any
    ) -> T:
        try:
            return self._call(kind, method, f"/jobs/{job}{part}", query, **more)
        except ApiError as problem:
            if problem.status == 404:
                raise _no_such_job(job, problem) from None
            raise

    def _job_stream(
        self, job: int, part: str, query: Query | None = None, body: Mapping[str, Any] | None = None
    ) -> Stream:
        try:
            return self._http.stream(f"/jobs/{job}{part}", query, body=body)
        except ApiError as problem:
            if problem.status == 404:
                self.job(job)  # says NoSuchJob; otherwise it is the file or the attempt that is not there
            raise


def _no_such_job(job: int, problem: ApiError) -> NoSuchJob:
    return NoSuchJob(404, problem.title, problem.detail or f"there is no job {job}")


def _part(text: str) -> str:
    return quote(text, safe="")


def _given(**fields: Any) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for name, value in fields.items() if value is not None}
