"""One-time codes, each good for one token of its user; and the overview."""

from typing import Any

import pytest

from schedulearn.api.body.spec import iso
from schedulearn.core.domain.states import JobState
from schedulearn.service.gateway import logins, overview

V1 = "/api/v1"


def code_of(client: Any, **body: str) -> str:
    return str(client.post(f"{V1}/logins", json=body).json()["code"])


def redeem(world: Any, code: str) -> Any:
    return world.client(None).post(f"{V1}/logins/redeem", json={"code": code})


def test_a_code_is_good_for_one_token_of_its_user(world: Any, ann: Any, problem: Any) -> None:
    code = code_of(ann)
    made = redeem(world, code).json()
    assert (made["user"], made["label"]) == ("ann", "page")
    assert world.client(made["token"]).get(f"{V1}/whoami").json()["name"] == "ann"
    problem(redeem(world, code), 401)


def test_an_administrator_may_let_somebody_else_in(world: Any, root: Any, problem: Any) -> None:
    assert redeem(world, code_of(root, user="bob")).json()["user"] == "bob"
    problem(root.post(f"{V1}/logins", json={"user": "nobody-of-that-name"}), 404)


def test_a_code_ends(world: Any, ann: Any, problem: Any) -> None:
    code = code_of(ann)
    world.gateway.logins._clock = lambda: world.gateway.now() + logins.GOOD_FOR + 1
    problem(redeem(world, code), 401)


def test_nobody_can_push_out_the_codes_of_others(world: Any, ann: Any, bob: Any) -> None:
    other = code_of(bob)
    codes = [code_of(ann) for _ in range(logins._MOST_CODES + 1)]
    assert redeem(world, other).status_code == 201
    assert [redeem(world, code).status_code for code in codes[:2]] == [401, 201]


def test_who_logs_in_again_and_again_keeps_the_newest_tokens(world: Any, ann: Any) -> None:
    made = [redeem(world, code_of(ann)).json() for _ in range(logins._MOST_TOKENS + 3)]
    kept = {token["id"] for token in ann.get(f"{V1}/tokens").json()["tokens"] if token["label"] == "page"}
    assert kept == {token["id"] for token in made[3:]}
    assert world.client(made[0]["token"]).get(f"{V1}/whoami").status_code == 401
    assert ann.get(f"{V1}/whoami").status_code == 200, "tokens of another kind stay"


class Days:
    """The gateway's clock, moved on by hand."""

    def __init__(self, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._gateway, self._now = world.gateway, world.gateway.now()
        for part in (world.gateway, world.gateway.auth, world.gateway.accounts):
            monkeypatch.setattr(part, "_clock", lambda: self._now)

    def later(self, days: float) -> None:
        self._now += days * 86400
        self._gateway.auth.forget()  # what was looked up is good for two seconds, by a clock of its own


@pytest.fixture
def days(world: Any, monkeypatch: pytest.MonkeyPatch) -> Days:
    return Days(world, monkeypatch)


def test_a_log_in_ends_when_it_is_not_used_for_30_days(world: Any, ann: Any, days: Days, problem: Any) -> None:
    browser = world.client(redeem(world, code_of(ann)).json()["token"])
    for _ in range(3):
        days.later(29.9)
        assert browser.get(f"{V1}/whoami").status_code == 200
    days.later(30)
    problem(browser.get(f"{V1}/whoami"), 401)
    assert ann.get(f"{V1}/whoami").status_code == 200, "tokens of another kind do not end"


def test_a_log_in_is_renewed_no_more_than_once_an_hour(
    world: Any, ann: Any, days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = world.client(redeem(world, code_of(ann)).json()["token"])
    renew, renewed = world.store.renew_token, list[int]()
    monkeypatch.setattr(world.store, "renew_token", lambda *given: (renewed.append(1), renew(*given)))
    counts = []
    for _ in range(6):
        days.later(0.5 / 24 + 1e-6)
        browser.get(f"{V1}/whoami")
        counts.append(len(renewed))
    assert counts == [0, 1, 1, 2, 2, 3]


def test_when_tokens_end_is_told_and_ended_ones_are_gone(world: Any, ann: Any, days: Days) -> None:
    def ends() -> list[str | None]:
        return [token["expires_at"] for token in ann.get(f"{V1}/tokens").json()["tokens"]]

    redeem(world, code_of(ann))
    assert ends() == [None, iso(world.gateway.now() + 30 * 86400)]
    days.later(30)
    assert ends() == [None]
    assert len(world.store.tokens("ann")) == 2
    redeem(world, code_of(ann))
    assert len(world.store.tokens("ann")) == 2, "the one that has ended is forgotten with the next log-in"


def test_the_overview_shows_who_holds_what(world: Any, ann: Any, job: int) -> None:
    waits = ann.post(f"{V1}/jobs", json={"command": "true", "name": "<b>waits</b>"}).json()["id"]
    world.run(job, device="GPU-0")
    seen = ann.get(f"{V1}/overview").json()
    assert [one["id"] for one in seen["running"]] == [job]
    assert (seen["counts"]["running"], seen["counts"]["queued"]) == (1, 1)
    assert [(held["job"], held["node"], held["devices"]) for held in seen["holders"]] == [(job, "local", ["GPU-0"])]
    assert seen["holders"][0]["leased"]["cpus"] == 1
    assert seen["scheduler"] == "running"
    assert seen["policy"]["preset"]
    assert [node["name"] for node in seen["nodes"]] == ["local"]
    assert waits not in [one["id"] for one in seen["running"]]


def test_one_look_is_shared_for_a_moment(
    world: Any, ann: Any, bob: Any, job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    world.gateway._overview._reasons._find = lambda count: looks.append(count) or []
    monkeypatch.setattr(overview, "KEEP", 3600.0)
    assert ann.get(f"{V1}/overview").json()["counts"]["queued"] == 1
    world.set_state(job, JobState.CANCELLED)
    assert bob.get(f"{V1}/overview").json()["counts"]["queued"] == 1
    assert len(looks) == 1


def test_jobs_are_searched_by_a_part_of_their_name(ann: Any) -> None:
    for name in ("MNIST-large", "mnist_small", "cifar", "100%"):
        ann.post(f"{V1}/jobs", json={"command": "true", "name": name})

    def found(text: str) -> list[str]:
        return [job["name"] for job in ann.get(f"{V1}/jobs", params={"search": text}).json()["jobs"]]

    assert found("mnist") == ["MNIST-large", "mnist_small"]
    assert found("t_s") == ["mnist_small"], "an underscore stands for itself"
    assert found("%") == ["100%"]
