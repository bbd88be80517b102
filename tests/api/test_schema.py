"""What the API publishes is what it does: requests made from its own description, by every kind of caller.

Nothing breaks it; every status, form and content of an answer is described; what the description allows is taken, and
what it does not is refused. New routes take part by themselves. The requests are the same in every run and on every
machine; `EXPLORE=1` tries others, with `--hypothesis-seed` those of that number.
"""

import json
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from schedulearn.service.common.auth import hash_token
from support.constants import constants_of

pytestmark = pytest.mark.slow

GOOD, BAD = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
ALWAYS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OF_THE_WORLD = {  # fields of a job that must agree with what there is, or with each other
    *("image", "setup", "mounts", "snapshot", "workdir", "depends_on", "target", "notify", "metric", "deadline"),
    *("workers", "resources", "time_limit", "grace", "launcher"),
}
EXPLORE = bool(os.environ.get("EXPLORE"))
MORE = 6 if EXPLORE else 1  # times as many requests
PARTS = 4  # of all operations: each a test of its own
TAKEN = {200, 201, 202, 204}
NOT_HERE = {401, 403, 404, 409, 413, 429}  # good data, but not for this caller, these jobs, or this moment


class Excuse(NamedTuple):
    """Good data that is refused all the same, because of something that no JSON schema can say."""

    field: str
    problem: str
    why: str


EXCUSES = (
    Excuse(r".*", r"out of bounds", "the amount that a text stands for has bounds, which a pattern cannot have"),
    Excuse(
        r"deadline", r"has passed or is too far|no date that exists", "a date is measured by the calendar and the clock"
    ),
    Excuse(r"since", r"is not before", "two fields must agree"),
    Excuse(r"(.*\.)?(cpus|workers)", r"is not a range|not in order", "a range begins with its smaller number"),
    Excuse(r"command", r"needs a command|nothing to run|put in front", "launcher, image and command must agree"),
    Excuse(r"resources\.gpu_type", r"no GPUs are asked for", "gpus and gpu_type must agree"),
    Excuse(r"workers", r"cannot change its size", "launcher, gpus and workers must agree"),
    Excuse(r"target", r"is not the job's metric", "the target names the metric of the same job"),
    Excuse(
        r"uid|gid|root",
        r"goes with a uid|has a uid|jobs cannot run as|root",
        "uid, gid and root must agree; some are taken",
    ),
    Excuse(r"Idempotency-Key", r"was used before", "a key belongs to the request that it came with first"),
    Excuse(r"points", r"they have .* values", "all values of a report are counted together"),
    Excuse(r"env", r"too long together", "all texts of a job are counted together"),
    Excuse(r"workdir", r"cannot be seen from here", "workdir and snapshot must agree"),
    Excuse(r"metric\.pattern", r".*", "what is a regular expression, and a harmless one, no pattern can say"),
    Excuse(r"(notify|addresses).*", r".*", "an address must mean the same to everybody, and be one that may be used"),
    Excuse(r"snapshot", r".*", "the snapshot must be there, and its bytes have this hash"),
    Excuse(r"depends_on", r"there is no job", "the jobs must be there"),
    Excuse(r"image|setup|mounts", r".*", "what the servers can run in containers"),
    Excuse(r"(workers|resources).*", r"no single node|at least .* workers|no node", "what the nodes have"),
    Excuse(r"priority", r"may ask for", "the caller's own limit"),
    Excuse(r"cpus_limit|workers", r".*", "the job's own spec bounds what it may be changed to"),
    Excuse(
        r"preset|stages.*|params.*|policies", r".*", "which policies there are, plug-ins included, and what they take"
    ),
    Excuse(r"cluster|trace", r".*", "what the simulator can read, and whether there is a history"),
    Excuse(r"address", r".*", "hosts, ports and paths of engines have rules that no pattern can say"),
    Excuse(r"name", r".*node|.*it is |.*machine", "what a node may be called, and which names are taken"),
    Excuse(
        r"worker|members|key|value", r".*", "the worker belongs to the attempt, the members are in order, keys count"
    ),
    Excuse(r"node", r"there is no node", "the node must be there"),
    Excuse(r"path", r"leads out", "a path stays inside, whatever its parts"),
)


class Prober:
    """Sends requests as one kind of caller, and gathers what was wrong with the answers."""

    def __init__(self, world: Any, description: Any, role: str, job: int) -> None:
        self.world, self.role, self.job = world, role, job
        self._tokens = self._requests = 0
        self.follows_links = False  # what a request is about comes from an answer before
        self.wrong: dict[str, str] = {}  # one example for each
        self.statuses: dict[str, set[int]] = {}
        self.description = description

    def operations(self) -> Iterator[Any]:
        """What takes things away comes last: the others may need them."""
        found = [result.ok() for result in self.description.get_all_operations()]
        return iter(sorted(found, key=lambda operation: operation.method.upper() == "DELETE"))

    def try_all(self, good: int, bad: int, part: int) -> None:
        for operation in islice(self.operations(), part, None, PARTS):
            for mode, count in ((GOOD, good), (BAD, bad)):
                self._try(operation, mode, count)

    def _try(self, operation: Any, mode: GenerationMode, count: int) -> None:
        @settings(
            max_examples=count * MORE,
            deadline=None,
            database=None,
            derandomize=not EXPLORE,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            self.prepare(case, mode)
            self.judge(case, case.call(), mode)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries that make and send the requests
            try:
                check()
            except Unsatisfiable:
                return  # there is no bad data for a route without parameters

    def prepare(self, case: Any, mode: GenerationMode) -> None:
        """As this caller; about what is there; and nothing that waits."""
        token = self._token()
        case.headers = {k: v for k, v in (case.headers or {}).items() if k.lower() != "authorization"}
        if token:
            case.headers["Authorization"] = f"Bearer {token}"
        _hurry(case)
        self._requests += 1
        if mode is GOOD and self._requests % 2:
            _make_possible(case)
        if mode is GOOD and not self.follows_links:
            known = {"job": self.job, "attempt": f"{self.job}.1", "group": "1.1"}
            case.path_parameters.update({name: known[name] for name in known if name in case.path_parameters})
            if "/nodes/" in case.path:
                case.path_parameters["name"] = "local"

    def _token(self) -> str | None:
        """Made anew for each request: the one before may have revoked it, or removed its user."""
        store = self.world.store
        if self.role == "nobody":
            return None
        name = "root" if self.role == "administrator" else "ann"
        if store.user(name) is None:
            store.add_user(name, "admin" if name == "root" else "user")
        self._tokens += 1
        token = f"sl_probe_{self._tokens}"
        store.add_token(name, "probe", hash_token(token), 0.0, self.world.attempt if self.role == "job" else None)
        return token

    def judge(self, case: Any, answer: Any, mode: GenerationMode) -> None:
        label = case.operation.label
        self.statuses.setdefault(label, set()).add(answer.status_code)
        checks = [*ALWAYS, negative_data_rejection] if mode is BAD and answer.status_code < 400 else ALWAYS
        try:
            case.validate_response(answer, checks=checks)
        except FailureGroup as failures:
            self._note(label, mode, case, answer, str(failures.exceptions[0]))
        if mode is GOOD and answer.status_code not in TAKEN | NOT_HERE and not excused(answer):
            self._note(label, mode, case, answer, "good data was refused")

    def _note(self, label: str, mode: GenerationMode, case: Any, answer: Any, what: str) -> None:
        short = re.sub(r"\s+", " ", what)[:600]
        request = f"{case.path_parameters} {case.query} {str(case.body)[:600]}"
        self.wrong.setdefault(
            f"{label} {answer.status_code} {mode.name} {short[:60]}", f"{short}\n    {request}\n    {answer.text[:400]}"
        )

    def verdict(self) -> None:
        assert not self.wrong, "\n".join(f"{label}: {example}" for label, example in sorted(self.wrong.items()))


def for_requests(document: dict[str, Any]) -> dict[str, Any]:
    """The description as it is to somebody who brings a token along, and writes no books."""

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # No request gets near to such a length, but to make patterns of that length takes most of the time.
        return {name: value for name, value in pairs if not (name == "maxLength" and value > 5_000)}

    bare: dict[str, Any] = json.loads(json.dumps(document), object_pairs_hook=read)
    bare["components"].pop("securitySchemes")
    for methods in bare["paths"].values():
        for operation in methods.values():
            operation.pop("security", None)
    return bare


def _hurry(case: Any) -> None:
    """A stream that never ends, and an answer that waits for others, have tests of their own."""
    names = {parameter.name for parameter in case.operation.query}
    if "follow" in names and str((case.query or {}).get("follow", "true")).lower() in ("true", "false"):
        case.query = {**(case.query or {}), "follow": "false"}
    waits = case.path.endswith(("/group", "/keys/get"))
    if waits and isinstance(case.body, dict) and _is_number(case.body.get("wait", 1)):
        case.body["wait"] = 0


def _make_possible(case: Any) -> None:
    """Nearly every submission names something that is not there: this one could run."""
    if case.operation.label == "POST /api/v1/jobs" and isinstance(case.body, dict):
        case.body = {
            **{name: value for name, value in case.body.items() if name not in OF_THE_WORLD},
            "command": "true",
        }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e3


def excused(answer: Any) -> bool:
    if answer.status_code != 422:
        return False
    errors = answer.json().get("errors") or []
    return bool(errors) and all(
        any(
            re.fullmatch(excuse.field, error["field"]) and re.search(excuse.problem, error["problem"])
            for excuse in EXCUSES
        )
        for error in errors
    )


@pytest.fixture(scope="module")
def description(app: Any) -> Any:
    """One for all, as it takes long to make ready."""
    made = schemathesis.openapi.from_dict(for_requests(app.openapi()))
    made.app = app
    made.config.generation.update(modes=[GOOD])  # of requests one after the other; else each is told its own
    return made


@pytest.fixture
def probed(world: Any, job: int) -> Iterator[Any]:
    """A world with a job that runs, and servers that nobody waits for."""
    world.attempt = world.run(job)
    world.gateway.servers._patience = 0.0
    with constants_of("schedulearn.api", "schedulearn.core.domain"):
        yield world


@pytest.mark.timeout(900)  # minutes on a machine with much else to do
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("role", "good", "bad"), [("administrator", 5, 4), ("user", 2, 1), ("job", 2, 1), ("nobody", 1, 1)]
)
def test_requests_of_every_kind(
    probed: Any, description: Any, job: int, role: str, good: int, bad: int, part: int
) -> None:
    prober = Prober(probed, description, role, job)
    prober.try_all(good, bad, part)
    prober.verdict()
    answered = {label for label, statuses in prober.statuses.items() if statuses & (TAKEN | {404, 409})}
    refused = {label for label, statuses in prober.statuses.items() if statuses <= {400, 401, 413, 422}}
    if role == "administrator":
        assert len(answered) > len(prober.statuses) / 2, "too few requests got past the checks"
    if role == "nobody":
        assert prober.statuses.keys() - refused <= {"GET /api/v1/health"}, "only this answers without a token"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("role", ["administrator", "user"])
def test_what_was_made_can_be_asked_for_changed_and_removed(probed: Any, description: Any, job: int, role: str) -> None:
    """Requests one after the other, each about what an earlier one has made, as the description links them."""
    prober = Prober(probed, description, role, job)
    prober.follows_links = True
    linked: set[str] = set()
    examples, begun = 8 * MORE, 0

    class Machine(prober.description.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            nonlocal begun
            begun += 1

        def before_call(self, case: Any) -> None:
            prober.prepare(case, GOOD)

        def validate_response(self, response: Any, case: Any, *_: Any, **__: Any) -> None:
            prober.judge(case, response, GOOD)
            if case.path_parameters and response.status_code in TAKEN:
                linked.add(case.operation.label)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while begun < examples:
            # All examples are about one world: where an earlier one took something away, the same choices lead
            # elsewhere than before. That is no mistake here, but Hypothesis gives up then, and begins anew.
            with suppress(FlakyStrategyDefinition):
                Machine.run(
                    settings=settings(
                        max_examples=examples - begun,
                        stateful_step_count=8,
                        deadline=None,
                        database=None,
                        derandomize=not EXPLORE,
                        phases=[Phase.generate],
                        suppress_health_check=list(HealthCheck),
                    )
                )
                break
    prober.verdict()
    assert linked, "no answer led on to another route"


def test_every_status_of_every_route_is_described(world: Any) -> None:
    for path, methods in world.app.openapi()["paths"].items():
        for method, operation in methods.items():
            problems = [answer for status, answer in operation["responses"].items() if int(status) >= 400]
            assert all("application/problem+json" in answer["content"] for answer in problems), (method, path)
            assert {"422", "503"} <= operation["responses"].keys(), (method, path)
            assert ("401" in operation["responses"]) == ("security" in operation or path.endswith("/redeem")), path
            assert not any("X" in status for status in operation["responses"]), "each one by itself, not by ranges"
