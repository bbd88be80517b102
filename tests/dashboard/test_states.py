"""Nothing there yet, nothing there at all, and a service that goes away: each page says so, and what to do."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from schedulearn.client import Client
from schedulearn.store import open_store
from support.browser import Page
from support.service import Service
from support.waiting import wait_until

from .conftest import page_alone, submit
from .test_guard import ask, log_in

AWAY = "The service does not answer"
# How often the words about trouble went away again.
COUNT = """(() => {
  const line = document.querySelector('.trouble');
  window.cleared = 0;
  const look = () => { if (!line.innerText.trim()) window.cleared += 1; };
  new MutationObserver(look).observe(line, {childList: true, subtree: true});
})()"""

EMPTY = {
    "/": [
        "No job is running. Start one",
        "schedulearn run -- python train.py",
        "fill in a form",
        "The queue is empty.",
    ],
    "/jobs": ["No job yet. Start one: ", "schedulearn run -- python train.py", "fill in a form"],
    "/timeline": ["No job ran in this time.", "Submit one"],
    "/submit": ["Enter a command."],
    "/policies": ["See when the jobs of this moment would end under several policies, or replay a workload."],
    "/results": ["No report yet.", "Policies", "schedulearn experiment run fixed-3"],
}
MISSING = {
    "/jobs/999999": ("there is no job 999999", "List all jobs", "/jobs"),
    "/results/no-such": ("There is no report no-such", "List all reports", "/results"),
    "/nowhere": ("There is no such page", "To the overview", "/"),
}


def test_a_fresh_service_says_what_to_do_next(page: Page, client: Client) -> None:
    for job in client.jobs()["jobs"]:
        client.delete(job["id"])
    wait_until(lambda: client.jobs()["total"] == 0, 60, "no job is left")
    for path, words in EMPTY.items():
        page.open(client.url + path)
        for some in words:
            page.wait_for(some)
    page.open(f"{client.url}/policies")
    page.click("Compare")
    page.wait_for("no job runs or waits")
    page.script("document.querySelectorAll('.q-radio')[1].click()")
    page.click("Compare")
    page.wait_for("the service has not run any job to its end yet")


def test_what_is_not_there_leads_to_what_is(page: Page, client: Client) -> None:
    for path, (words, link, target) in MISSING.items():
        page.open(client.url + path)
        page.wait_for(words)
        page.click(link)
        wait_until(lambda target=target: page.address == target, 60, f"from {path} to {target}")  # type: ignore[misc]
    page.problems.clear()  # the browser itself notes the 404


def test_what_is_not_there_is_told_to_programs_too(service: Service, client: Client) -> None:
    cookie = log_in(service)
    for path in (*MISSING, "/jobs/0", "/jobs/abc", "/jobs/999999999999999", "/jobs/9999999999999999"):
        assert ask(service, path, Cookie=cookie).status == 404, path
    assert ask(service, f"/jobs/{submit(client)}", Cookie=cookie).status == 200


def test_a_log_in_that_has_ended_is_told_and_leads_back(page: Page, client: Client, service: Service) -> None:
    page.open(f"{client.url}/jobs?search=x")
    page.wait_for("Log out")
    with open_store(service.data / "schedulearn.db") as store:
        for token in client.tokens():
            if token["label"] == "page":
                store.renew_token(token["id"], time.time())
    page.wait_for("Your session has ended: it was revoked, was not used for 30 days,")
    page.fill("#token", service.token)
    page.press("Enter")
    wait_until(lambda: page.address == "/jobs?search=x", 60, "back to where it was")
    page.wait_for("Log out")


def test_every_page_tells_that_the_service_is_away_and_recovers(
    page_of: Callable[..., Page], client: Client, service: Service, tmp_path: Path
) -> None:
    job = submit(client, "outlives")
    folder = service.data / "reports" / "kept"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<h1>a report</h1>")
    (folder / "report.json").write_text(json.dumps({"kind": "experiment", "title": "kept", "about": "Three jobs."}))
    open_before = {
        f"/jobs/{job}": "outlives", "/timeline": "outlives", "/submit": "A new job", "/policies": "current",
        "/results/kept": "Three jobs.",
    }  # fmt: skip
    opened_then = {"/policies": "current"}
    with page_alone(service.url, tmp_path / "log") as url:
        early = {page_of(path, url=url): words for path, words in open_before.items()}
        late = [(page_of(url=url), path, words) for path, words in opened_then.items()]
        for page, words in early.items():
            page.wait_for(words)
            page.script(COUNT)
        service.kill()
        for page, path, _ in late:
            page.open(url + path)
        for page, words in early.items():
            page.wait_for(AWAY)
            assert words in page.text, f"{page.address}: what was last seen stays"
        for page, _, _ in late:
            page.wait_for(AWAY)
        service.start()
        for page, words in [*early.items(), *((page, words) for page, _, words in late)]:
            page.wait_without(AWAY)
            page.wait_for(words)
        for page in early:
            assert page.script("window.cleared") == 1, f"{page.address}: it said so all the time"
        for page in [*early, *(page for page, _, _ in late)]:
            page.problems.clear()
