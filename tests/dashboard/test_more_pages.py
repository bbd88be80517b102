"""The timeline and the form of a job, as a person uses them."""

import json
import shlex
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from schedulearn.client import Client
from support.browser import Page
from support.service import Service, run_cli
from support.waiting import wait_until

from .conftest import submit

MARKUP = "<img src=x onerror=alert(1)>"
_BAR = """(words => {
  const found = [...document.querySelectorAll('.strips svg text')].find(e => e.textContent.includes(words));
  const box = found?.getBoundingClientRect();
  return box ? [box.x + 4, box.y + box.height / 2] : null;
})(%s)"""


def bar(page: Page, words: str) -> tuple[float, float]:
    """Where the bar is that is called so."""
    x, y = wait_until(lambda: page.script(_BAR % json.dumps(words)), 60, f"a bar {words!r}")
    return x, y


def mouse(page: Page, kind: str, placement: tuple[float, float], **more: Any) -> None:
    page.call("Input.dispatchMouseEvent", type=kind, x=placement[0], y=placement[1], **more)


def ends(client: Client, job: int) -> None:
    client.cancel(job)
    wait_until(lambda: client.job(job)["state"] == "cancelled", 60, "it is over")


# --- the timeline


def test_the_timeline_follows_what_happens(page: Page, client: Client) -> None:
    page.click("Timeline")
    page.wait_for("No job ran in this time")
    job = submit(client, "learns")
    bar(page, f"{job} learns")
    row = "table[aria-label='Jobs in this time'] tbody tr"
    wait_until(lambda: "running" in page.text_of(row), 60, "it is in the table, too")
    before = page.text_of(row)
    wait_until(lambda: page.text_of(row) != before, 60, "time goes on")
    ends(client, job)
    page.wait_for("stopped: cancel")


def test_a_bar_tells_more_and_leads_to_its_job(page: Page, client: Client) -> None:
    job = submit(client, MARKUP)
    page.open(f"{client.url}/timeline?span=60")
    placement = bar(page, f"{job} <img")
    mouse(page, "mouseMoved", placement)
    page.wait_for("attempt" if client.job(job)["attempt"] > 1 else "on local")
    assert f"{job} {MARKUP}" in page.text, "as it is written"
    assert page.count("img[src=x]") == 0
    placement = bar(page, f"{job} <img")
    for kind in ("mousePressed", "mouseReleased"):
        mouse(page, kind, placement, button="left", clickCount=1)
    wait_until(lambda: page.address == f"/jobs/{job}", 60, "its own page")


def test_the_wheel_zooms_and_an_update_leaves_it(page: Page, client: Client) -> None:
    job = submit(client, "zoomed")
    page.open(f"{client.url}/timeline?span=600")
    page.wait_for("zoomed")

    def ticks() -> str:
        return str(page.script("[...document.querySelectorAll('.strips svg text')].map(e => e.textContent).join()"))

    wait_until(lambda: ":" in ticks(), 60, "the axis has times")
    before = ticks()
    box = page.script(
        "(b => [b.x + b.width - 24, b.y + 20])(document.querySelector('.strips').getBoundingClientRect())"
    )
    for _ in range(24):
        mouse(page, "mouseWheel", (box[0], box[1]), deltaX=0, deltaY=-240)
    placement = bar(page, f"{job} z")  # far too short to be named before
    assert ticks() != before
    ends(client, job)
    page.wait_for("stopped: cancel")
    assert bar(page, f"{job} z")[1] == placement[1], "still zoomed in"


def shows(page: Page, words: str) -> None:
    """Wait until the address says so, and that time is drawn: until then the links lead on from another one."""
    drawn = "document.querySelector('nav[aria-label=Length] [aria-current]')?.getAttribute('href')"
    there = f"{drawn} === location.pathname + location.search && location.search"
    wait_until(lambda: words in unquote(page.script(there) or ""), 60, words)


def test_back_in_time_and_to_now(page: Page, client: Client) -> None:
    job = submit(client, "present")
    page.open(f"{client.url}/timeline?span=60&until=2020-01-01T00:29:30Z")
    page.wait_for("No job ran in this time")
    page.click("1 h")
    shows(page, "span=3600&until=2020-01-01T00:59:00")
    page.click("earlier")
    shows(page, "until=2020-01-01T00:29:00")
    page.click("later")
    shows(page, "until=2020-01-01T00:59:00")
    page.click("1 min")
    shows(page, "span=60&until=2020-01-01T00:29:30")
    page.click("Live")
    shows(page, "?span=60")
    assert page.address == "/timeline?span=60"
    bar(page, f"{job} present")
    page.script("history.back()")
    page.wait_for("No job ran in this time")


# --- the form


def test_a_job_is_checked_while_it_is_typed_and_submitted(page: Page, client: Client) -> None:
    page.click("Submit")
    page.wait_for("Enter a command")
    assert page.count(".q-field--error") == 0, "nothing is wrong before anything is typed"
    page.fill("[name=cpus]", "6400")
    page.wait_for("the largest node has")
    page.fill("[name=cpus]", "0.1")
    page.wait_without("the largest node has")
    page.fill("[name=priority]", "high")
    page.wait_for("a whole number, 0 to 100")
    page.fill("[name=priority]", "70")
    page.fill("[name=command]", "echo $GREETING from the form")
    page.fill("[name=env]", "GREETING")
    page.wait_for("it needs a value")
    page.fill("[name=env]", f"GREETING={MARKUP}")
    page.wait_for("the job will be queued as echo")
    assert page.count(".q-field--error") == 0
    assert page.count("img[src=x]") == 0
    page.press("Tab")
    page.click("Submit job")
    page.wait_for(f"{MARKUP} from the form")
    number = int(page.address.removeprefix("/jobs/"))
    assert client.job(number)["priority"] == 70


def test_the_command_line_that_is_shown_does_the_same(page: Page, client: Client, service: Service) -> None:
    page.open(f"{client.url}/submit")
    page.fill("[name=command]", "echo 'it''s' && true")
    page.fill("[name=name]", "typed")
    page.fill("[name=cpus]", "0.1..1")
    page.wait_for("the job will be queued as typed")
    wait_until(lambda: "0.1..1" in page.text_of("[aria-label='Command line']"), 60, "all of it")
    words = shlex.split(page.text_of("[aria-label='Command line']").replace("\\\n", ""))
    assert words[:2] == ["schedulearn", "submit"]
    env = {"SCHEDULEARN_URL": service.url, "SCHEDULEARN_TOKEN": service.token}
    done = run_cli("submit", "--json", *words[2:], env=env)
    assert done.returncode == 0, done.stderr
    typed = json.loads(done.stdout)["spec"]
    assert (typed["name"], typed["command"], typed["resources"]["cpus"]) == (
        "typed", "echo 'it''s' && true", "0.1..1.0",
    )  # fmt: skip


def test_what_a_user_may_not_is_said_while_it_is_typed(page_of: Callable[..., Page], client: Client) -> None:
    client.add_user("cap", max_priority=60)
    page = page_of("/submit", user="cap")
    page.fill("[name=command]", "true")
    page.fill("[name=priority]", "90")
    page.wait_for("above what cap may use")
    page.press("Tab")
    page.click("Submit job")
    page.wait_for("One field is not valid")
    assert page.address == "/submit"
    page.problems.clear()


def test_what_is_not_there_cannot_be_copied(page: Page, client: Client) -> None:
    page.open(f"{client.url}/submit?copy=999999")
    page.wait_for("there is no job 999999: nothing to copy")
    page.wait_for("A new job")
