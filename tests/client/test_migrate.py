"""Asking for a move, and waiting for what comes of it."""

from collections.abc import Callable
from typing import Any

import pytest

from schedulearn.client import Client, NoSuchJob

Serve = Callable[[Callable[[Any, Any], None]], Any]


def test_a_move_is_asked_for(serve: Serve) -> None:
    service = serve(lambda handler, request: handler.reply({"id": 17}))
    with Client(service.url, "t") as client:
        assert client.migrate(17, "gpu 2")["id"] == 17
    assert (service.requests[0].method, service.requests[0].path) == ("POST", "/jobs/17/migrate")
    assert service.requests[0].json() == {"node": "gpu 2"}


def test_the_next_event_that_is_wanted(serve: Serve) -> None:
    """The first look finds nothing, in the second the service is away, the third finds it."""
    looks: list[int] = []

    def answer(handler: Any, request: Any) -> None:
        if not request.path.startswith("/events"):
            handler.reply({"id": 17})
            return
        looks.append(1)
        if len(looks) == 3:
            handler.break_off()
            return
        kinds = ["stop"] if len(looks) < 3 else ["stop", "migrated"]
        after = int(request.query.get("after", ["0"])[0])
        events = [{"serial": i + 5, "kind": kind, "job": 17} for i, kind in enumerate(kinds)]
        handler.reply({"events": [event for event in events if event["serial"] > after]})

    with Client(serve(answer).url, "t") as client:
        found = client.next_event(17, 4, lambda event: event["kind"] == "migrated")
    assert found["serial"] == 6


def test_a_job_that_is_deleted_meanwhile(serve: Serve) -> None:
    def answer(handler: Any, request: Any) -> None:
        if request.path.startswith("/events"):
            handler.reply({"events": []})
        else:
            handler.reply({"title": "Not found", "status": 404}, 404, "application/problem+json")

    with Client(serve(answer).url, "t") as client, pytest.raises(NoSuchJob):
        client.next_event(17, 4, lambda event: True)
