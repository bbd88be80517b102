"""Who may do what, end to end."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import ApiError, Client
from support.jobs import ended, in_state, spec, submit
from support.service import Service


@pytest.fixture
def ann(client: Client, service: Service) -> Iterator[Client]:
    with person(client, service, "ann") as made:
        yield made


@pytest.fixture
def bob(client: Client, service: Service) -> Iterator[Client]:
    with person(client, service, "bob") as made:
        yield made


def person(admin: Client, service: Service, name: str) -> Client:
    if name not in {user["name"] for user in admin.users()}:
        admin.add_user(name, max_priority=60)
    return service.client(admin.add_token("test", name)["token"])


def refused(call: Any, *args: Any, **more: Any) -> int:
    with pytest.raises(ApiError) as error:
        call(*args, **more)
    return error.value.status


def test_users_see_all_jobs_and_change_only_their_own(client: Client, ann: Client, bob: Client) -> None:
    job = submit(ann, spec("sleep 1000", env={"SECRET": "hush"}))
    in_state(ann, job, "running")
    assert bob.job(job)["user"] == "ann"
    assert bob.job(job)["spec"]["env"]["SECRET"] == "***"
    assert ann.job(job)["spec"]["env"]["SECRET"] == "hush"
    for act in (bob.cancel, bob.pause, bob.delete):
        assert refused(act, job) == 403
    assert refused(bob.update, job, priority=1) == 403
    assert refused(bob.pull, job, None, Path("nowhere")) == 403
    assert bob.job(job)["state"] == "running"
    client.cancel(job)
    assert ended(client, job)["reason"] == "cancelled by admin"


def test_what_only_an_administrator_may_do(client: Client, ann: Client) -> None:
    node = client.nodes()[0]["name"]
    assert refused(ann.drain, node) == 403
    assert refused(ann.set_policy, "round-robin") == 403
    assert refused(ann.users) == 403
    assert refused(ann.add_user, "eve", role="admin") == 403
    assert refused(ann.add_token, "more", "bob") in (403, 404)
    assert client.nodes()[0]["state"] == "up"


def test_a_priority_above_the_cap_is_refused(ann: Client) -> None:
    with pytest.raises(ApiError, match=r"0\.\.60"):
        ann.submit(spec("true", priority=61))
    job = submit(ann, spec("sleep 1000", priority=60))
    assert refused(ann.update, job, priority=61) == 422
    ann.cancel(job)
    ended(ann, job)


def test_a_revoked_token_is_worth_nothing(client: Client, service: Service, ann: Client) -> None:
    fresh = client.add_token("short", "ann")
    with service.client(fresh["token"]) as visitor:
        assert visitor.whoami()["name"] == "ann"
        client.revoke_token(fresh["id"])
        assert refused(visitor.whoami) == 401


def test_nothing_but_health_answers_without_a_token(service: Service, client: Client) -> None:
    assert fetch(f"{service.url}/api/v1/health")[0] == 200
    for path in ("/api/v1/jobs", "/api/v1/nodes", "/api/v1/events", "/metrics", "/api/v1/schema/job"):
        assert fetch(service.url + path)[0] == 401, path


def test_the_token_of_a_job_may_only_send_its_own_reports(client: Client, service: Service) -> None:
    job = submit(client, spec("cat $SCHEDULEARN_TOKEN_FILE; echo; sleep 1000"))
    other = submit(client, spec("sleep 1000"))
    in_state(client, other, "running")
    token = next(client.logs(job, follow=True)).decode().strip()
    assert token != service.token
    with service.client(token) as robber:
        assert refused(robber.cancel, other) == 403
        assert refused(robber.submit, spec("true")) == 403
        assert refused(robber.jobs) == 403
    assert report(service, token, job, other)[0] == 403
    status, answer = report(service, token, job, job)
    assert (status, answer) == (200, {"accepted": 1, "dropped": 0})
    for each in (job, other):
        client.cancel(each)
        ended(client, each)
    assert report(service, token, job, job)[0] == 401, "an attempt that is over has no token"


def report(service: Service, token: str, job: int, of: int) -> tuple[int, Any]:
    points = [{"seq": 1, "at": 1.0, "step": 1, "values": {"loss": 0.5}}]
    body = json.dumps({"worker": f"{of}.1.0", "points": points}).encode()
    return fetch(f"{service.url}/api/v1/attempts/{of}.1/reports", body, token)


def fetch(url: str, body: bytes | None = None, token: str | None = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None
