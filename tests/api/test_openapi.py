"""The published description of the API is whole, and nothing that it allows (or not) breaks the service."""

import warnings
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

V1 = "/api/v1"
STREAMS = ("/api/v1/events",)  # endless; they have tests of their own


def test_the_description_is_published(ann: Any) -> None:
    schema = ann.get(f"{V1}/openapi.json").json()
    assert schema["openapi"].startswith("3.")
    assert f"{V1}/jobs" in schema["paths"]
    assert all(path.startswith((V1, "/metrics")) for path in schema["paths"])


def test_every_route_has_a_tag_and_its_errors(world: Any) -> None:
    for path, methods in world.app.openapi()["paths"].items():
        for method, operation in methods.items():
            assert operation["tags"], (method, path)
            assert "application/problem+json" in operation["responses"]["4XX"]["content"], (method, path)
            assert "422" not in operation["responses"], (method, path)


def test_no_request_breaks_the_service(world: Any, job: int) -> None:
    """Requests made from the description, with good data and bad, for every route."""
    world.run(job)
    description = schemathesis.openapi.from_dict(world.app.openapi())
    description.app = world.app
    operations = [result.ok() for result in description.get_all_operations()]
    seen: dict[str, set[int]] = {}
    # What takes users and tokens away comes last: it may well hit our own.
    for operation in sorted(operations, key=lambda op: op.method.upper() == "DELETE"):
        if operation.path not in STREAMS:
            seen[operation.label] = set()
            for mode in GenerationMode:
                _try(operation, mode, job, seen[operation.label])
    assert len(seen) > 30
    answered = {label for label, statuses in seen.items() if statuses & {200, 201, 202, 204, 409}}
    assert len(answered) > 20, "too few requests got past the checks"


def _try(operation: Any, mode: GenerationMode, job: int, statuses: set[int]) -> None:
    @settings(
        max_examples=8,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        if "follow" in (case.query or {}):
            case.query["follow"] = "false"  # else it waits for a job that never ends
        if "job" in case.path_parameters and mode is GenerationMode.POSITIVE:
            case.path_parameters["job"] = job  # one that is there: the rest of the request is what is tried
        case.headers = {**(case.headers or {}), "Authorization": "Bearer sl_root"}
        answer = case.call()
        statuses.add(answer.status_code)
        assert answer.status_code < 500, (operation.label, answer.status_code, answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"], operation.label

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that make and send the requests
        try:
            check()
        except Unsatisfiable:
            return  # there is no bad data for a route without parameters
