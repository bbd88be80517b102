"""Who may have whom told of the ends of jobs."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from schedulearn.service.notify import subscriptions

HOOK = "https://hooks.example.org/ann"


@pytest.fixture
def rules(world: Any) -> None:
    """As `up --allow-notify … --mail-command …` leaves them."""
    world.store.set_setting(subscriptions.RULES, ["https://hooks.example.org", "@example.org"])
    world.store.set_setting(subscriptions.MAIL, True)


def change(client: TestClient, *addresses: Any, user: str | None = None) -> Any:
    return client.put("/api/v1/notify", json={"addresses": list(addresses)} | ({"user": user} if user else {}))


def submitted(client: TestClient, *addresses: Any) -> Any:
    return client.post("/api/v1/jobs", json={"command": "true", "notify": list(addresses)})


@pytest.mark.usefixtures("rules")
def test_what_the_rules_cover_may_be_named(ann: TestClient) -> None:
    assert submitted(ann, HOOK, "ann@example.org", {"failed": "ann@example.org"}).status_code == 201
    answer = change(ann, "ann@example.org", HOOK, HOOK)
    assert answer.status_code == 200
    assert answer.json()["addresses"] == ["mailto:ann@example.org", HOOK]
    assert ann.get("/api/v1/notify").json() == answer.json()


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/latest", "https://hooks.example.org.evil.net/", "ann@elsewhere.org", "nonsense"]
)
def test_what_they_do_not_cover_is_refused_and_nothing_changes(ann: TestClient, problem: Any, address: str) -> None:
    answers = {"notify": submitted(ann, HOOK, address), "addresses": change(ann, HOOK, address)}
    for field, answer in answers.items():
        said = problem(answer, 422)
        assert said["errors"][0]["field"].partition(".")[0] == field
        assert said["errors"][0]["allowed"]
    assert ann.get("/api/v1/jobs").json()["total"] == 0
    assert ann.get("/api/v1/notify").json()["addresses"] == []


def test_without_rules_only_administrators_name_addresses(ann: TestClient, root: TestClient, problem: Any) -> None:
    said = problem(submitted(ann, HOOK), 422)
    assert "--allow-notify" in said["errors"][0]["allowed"]
    assert submitted(root, "http://127.0.0.1:9000/x").status_code == 201


def test_what_an_administrator_gave_may_be_used(
    ann: TestClient, bob: TestClient, root: TestClient, problem: Any
) -> None:
    assert change(root, HOOK, user="ann").json()["given"] == [HOOK]
    assert submitted(ann, {"failed": HOOK}).status_code == 201
    assert change(ann).json()["addresses"] == []
    assert change(ann, {"failed": HOOK}).json()["addresses"] == [f"failed:{HOOK}"]
    problem(submitted(bob, HOOK), 422)
    problem(change(ann, HOOK + "/more"), 422)


def test_an_administrator_who_is_one_no_longer_has_given_nothing_to_themselves(root: TestClient, world: Any) -> None:
    change(root, "http://127.0.0.1:9000/x")
    assert world.store.subscription("root").given == ()


def test_e_mails_need_a_command(root: TestClient, problem: Any) -> None:
    assert "--mail-command" in problem(submitted(root, "ann@example.org"), 422)["detail"]


def test_others_notices_are_not_for_everybody(
    ann: TestClient, root: TestClient, nobody: TestClient, problem: Any
) -> None:
    problem(ann.get("/api/v1/notify?user=bob"), 403)
    problem(change(ann, user="bob"), 403)
    problem(nobody.get("/api/v1/notify"), 401)
    problem(root.get("/api/v1/notify?user=eve"), 404)
    assert root.get("/api/v1/notify?user=bob").json()["user"] == "bob"


@pytest.mark.usefixtures("rules")
def test_an_address_is_shown_to_its_owner_alone(ann: TestClient, bob: TestClient, root: TestClient) -> None:
    job = submitted(ann, HOOK).json()["id"]
    assert ann.get(f"/api/v1/jobs/{job}").json()["spec"]["notify"] == [HOOK]
    assert root.get(f"/api/v1/jobs/{job}").json()["spec"]["notify"] == [HOOK]
    assert bob.get(f"/api/v1/jobs/{job}").json()["spec"]["notify"] == ["***"]


def test_a_secret_is_its_owner_s(ann: TestClient, bob: TestClient) -> None:
    first = ann.get("/api/v1/notify/secret").json()["secret"]
    assert first.startswith("whsec_")
    assert ann.get("/api/v1/notify/secret").json()["secret"] == first
    assert bob.get("/api/v1/notify/secret").json()["secret"] != first
    assert ann.post("/api/v1/notify/secret").json()["secret"] != first


@pytest.mark.usefixtures("rules")
def test_a_test_waits_to_be_sent(ann: TestClient) -> None:
    change(ann, HOOK)
    assert ann.post("/api/v1/notify/test").json() == {"addresses": 1}
    (notice,) = ann.get("/api/v1/notify").json()["notices"]
    assert (notice["type"], notice["address"], notice["state"], notice["tries"]) == ("test", HOOK, "waiting", 0)
    assert notice["next_try_at"]


def test_the_addresses_of_a_user_who_was_removed_are_gone(root: TestClient, world: Any) -> None:
    change(root, HOOK, user="bob")
    assert root.delete("/api/v1/users/bob").status_code == 204
    assert world.store.subscription("bob").addresses == ()
