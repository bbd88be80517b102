"""The pages, as a person uses them."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import Client
from support.browser import Page
from support.service import Service
from support.waiting import wait_until

from .conftest import page_alone, submit

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def is_over(client: Client, job: int) -> Callable[[], bool]:
    return lambda: client.job(job)["state"] in ("succeeded", "failed", "cancelled")


# --- the overview


def test_the_overview_follows_what_happens(page: Page, client: Client) -> None:
    page.wait_for("No job is running")
    page.wait_for("The queue is empty")
    job = submit(client, "learns", steps=30)
    page.wait_for("100 %")  # its progress
    row = page.text_of("table[aria-label='Running jobs'] tbody tr")
    assert "learns" in row
    assert "0.0333" in row, "its loss"
    assert page.count("table[aria-label='Running jobs'] svg.spark") == 1
    assert str(job) in page.text_of("article.server")
    client.cancel(job)
    page.wait_for("No job is running")
    page.wait_for("cancelled")


def test_who_waits_is_shown_with_place_and_reason(page: Page, client: Client) -> None:
    cores = client.nodes()[0]["capacity"]["cpus"]
    holder = submit(client, "holder", resources={"cpus": cores})
    wait_until(lambda: client.job(holder)["state"] == "running", 60, "it runs")
    submit(client, "second", resources={"cpus": cores})
    submit(client, "first", resources={"cpus": cores}, priority=90)
    page.wait_for("second")
    page.wait_for("first")
    rows = page.text_of("table[aria-label='Queue'] tbody")
    assert rows.index("first") < rows.index("second")
    assert "cores on one node" in rows


def test_names_are_shown_as_they_are_written(page: Page, client: Client) -> None:
    job = submit(client, MARKUP)
    page.wait_for(MARKUP)
    page.open(f"{client.url}/jobs")
    page.wait_for(MARKUP)
    page.open(f"{client.url}/jobs/{job}")
    page.wait_for("waiting")
    assert MARKUP in page.text_of("h1")
    assert page.script("document.title").startswith(f"Job {job}")
    assert page.count("img[src=x]") == 0


# --- one job


def test_a_job_tells_its_story_and_shows_curve_output_and_spec(page: Page, client: Client) -> None:
    job = submit(client, "story", steps=30)
    page.open(f"{client.url}/jobs/{job}")
    wait_until(lambda: "waiting" in page.text_of(".output"), 60, "its output is there")
    assert "step 30/30 loss 0.0333" in page.text_of(".output")
    assert "\x1b" not in page.text_of(".output")
    page.wait_for("submitted by admin")
    page.wait_for("runs on local")
    wait_until(lambda: page.count(".curve svg path") > 3, 60, "the curve is drawn")
    wait_until(lambda: page.count(".strips svg path") > 3, 60, "what it uses is drawn")
    page.wait_for("name: story")
    page.wait_for("Size: 1 worker: it asks for 1.")
    page.wait_for("Place: On local, where")
    page.click("Cancel")
    page.wait_for("history and files are kept")
    page.click("Back")
    page.wait_without("history and files are kept")
    assert client.job(job)["state"] == "running", "nothing happens before it is confirmed"
    page.click("Cancel")
    page.click("Cancel it")
    page.wait_for("cancelled by admin")
    wait_until(is_over(client, job), 60, "it is cancelled")
    wait_until(lambda: "Pause" not in page.text_of(".actions"), 60, "what cannot be done now is not offered")


def test_priority_pause_and_resume(page: Page, client: Client) -> None:
    job = submit(client, "changed")
    page.open(f"{client.url}/jobs/{job}")
    page.wait_for("Move")  # it runs
    page.click("Priority")
    page.fill(".dialog input", "101")
    page.click("Change")
    page.wait_for("a whole number, 0 to 100")  # the service's own words, and the dialog stays
    page.fill(".dialog input", "77")
    page.press("Enter")
    wait_until(lambda: client.job(job)["priority"] == 77, 60, "the priority is 77")
    page.click("Pause")
    wait_until(lambda: client.job(job)["state"] == "paused", 60, "it is paused")
    page.click("Resume")
    wait_until(lambda: client.job(job)["state"] == "running", 60, "it goes on")


def test_a_copy_is_edited_and_submitted(page: Page, client: Client) -> None:
    job = submit(client, "origin", "print('hello')")
    wait_until(is_over(client, job), 60, "it is over")
    page.open(f"{client.url}/jobs/{job}")
    page.click("Copy and edit")
    page.wait_for(f"A copy of job {job}")
    page.fill("[name=name]", "copied")
    page.wait_for("the job will be queued as copied")
    page.fill("[name=command]", "echo copied-output")
    page.wait_for("command: echo copied-output")
    page.press("Tab")
    page.click("Submit job")
    wait_until(lambda: page.address == f"/jobs/{job + 1}", 60, "its own page")
    wait_until(lambda: "copied-output" in page.text_of(".output"), 60, "its output")
    before, after = client.job(job)["spec"], client.job(job + 1)["spec"]
    assert {name for name in before if before[name] != after[name]} == {"name", "command"}


def test_a_deleted_job_is_gone(page: Page, client: Client) -> None:
    job = submit(client, "doomed", "print('hello')")
    wait_until(is_over(client, job), 60, "it is over")
    page.open(f"{client.url}/jobs/{job}")
    page.click("Delete")
    page.wait_for("deleted for good")
    page.click("Delete it")
    wait_until(lambda: page.address == "/jobs", 60, "back to the table")
    page.open(f"{client.url}/jobs/{job}")
    page.wait_for(f"there is no job {job}")
    page.problems.clear()  # the browser itself notes the 404


def test_what_is_not_there_says_so(page: Page, client: Client) -> None:
    for path in ("/jobs/999999", "/jobs/abc", "/jobs/9999999999999999999", "/nowhere"):
        page.open(client.url + path)
        page.wait_for("here is no ")
    page.problems.clear()  # the browser itself notes the 404


# --- all jobs


def test_the_table_is_paged_filtered_and_sorted_by_the_service(page: Page, client: Client, service: Service) -> None:
    model = submit(client, "model", "pass")
    wait_until(is_over(client, model), 60, "it is over")
    many = add_copies(service, model, 10_000)
    page.open(f"{client.url}/jobs")
    page.wait_for(f"of {many:,}")
    assert page.count("table[aria-label=Jobs] tbody tr") == 50
    page.click("next page")
    page.wait_for("51–100 of")
    wait_until(lambda: page.address == "/jobs?page=2", 60, "the address says so")
    page.script("history.back()")
    page.wait_for("1–50 of")
    page.fill("#search", "AAA-04321")
    page.press("Enter")
    page.wait_for("1–1 of 1")
    assert page.count("table[aria-label=Jobs] tbody tr") == 1
    page.open(f"{client.url}/jobs?state=finished&user=nobody")
    page.wait_for("No job matches")
    page.open(f"{client.url}/jobs")
    page.click("Name")
    page.wait_for("▴")
    assert page.text_of("table[aria-label=Jobs] tbody tr").startswith("100000"), "aaa-00000 is the first"


def add_copies(service: Service, job: int, count: int) -> int:
    """Finished jobs by the thousand, straight into the database; how many there are then."""
    with sqlite3.connect(service.data / "schedulearn.db", timeout=60) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(jobs)") if row[1] not in ("id", "name")]
        names = ", ".join(f'"{column}"' for column in columns)
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1})"
        copy = f"SELECT 100000 + i, printf('aaa-%05d', i), {names} FROM n, jobs WHERE id = {job}"
        database.execute(f"INSERT INTO jobs (id, name, {names}) {numbers} {copy}")
        return int(database.execute("SELECT count(*) FROM jobs").fetchone()[0])


# --- who may what


def test_what_a_user_may_not_do_is_not_offered(page_of: Any, client: Client, service: Service) -> None:
    client.add_user("bob")
    job = submit(client, "not-bobs")
    bobs = page_of(f"/jobs/{job}", user="bob")
    bobs.wait_for("waiting")
    assert bobs.text_of(".actions").split("\n") == ["Copy and edit"]
    assert "bob" in bobs.text_of("header")


def page_tokens(client: Client) -> set[int]:
    return {token["id"] for token in client.tokens() if token["label"] == "page"}


def test_logging_out_ends_the_session(page: Page, client: Client, service: Service) -> None:
    (cookie,) = page.cookies()
    with service.client(cookie["value"]) as thief, pytest.raises(Exception, match="token"):
        thief.whoami()  # it is good for the page alone
    before = page_tokens(client)
    page.click("Log out")
    page.wait_for("Token")
    assert len(before - page_tokens(client)) == 1, "that of this browser is revoked"
    page.open(f"{service.url}/jobs")
    page.wait_for("Token")
    page.fill("#token", "wrong")
    page.click("Log in")
    page.wait_for("This token is not valid")
    page.fill("#token", service.token)
    page.click("Log in")
    page.wait_for("Jobs")
    assert page.address == "/jobs", "where they wanted to go"
    page.problems.clear()  # the browser itself notes the 401


# --- looks


def test_light_and_dark(page: Page) -> None:
    def background() -> str:
        return str(page.script("getComputedStyle(document.body).backgroundColor"))

    light = background()
    page.click("Light or dark")
    wait_until(lambda: background() != light, 60, "it is dark")
    dark = background()
    page.open(page.script("location.href"))
    wait_until(lambda: background() == dark, 60, "and stays so")


def test_a_phone_shows_everything_without_scrolling_sideways(page: Page, client: Client) -> None:
    job = submit(client, "a-rather-long-name-for-a-small-telephone-that-would-not-fit", steps=30)
    page.resize(360, 760)
    pages = dict.fromkeys(["/", "/jobs", f"/jobs/{job}", "/timeline", f"/submit?copy={job}"], "a-rather-long-name")
    for path, word in {**pages, "/policies": "elastic-srjf", "/results": "Results"}.items():
        page.open(client.url + path)
        page.wait_for(word)
        assert page.script("document.documentElement.scrollWidth") <= 360, path


# What is shown of it changes for as long as anybody looks.
GOES_ON = """
import itertools, time
for step in itertools.count(1):
    print(f"step {step} loss {1 / step:.4f}", flush=True)
    time.sleep(0.2)
"""


def test_the_keyboard_is_enough(page: Page, client: Client) -> None:
    submit(client, "reached", GOES_ON)
    page.wait_for("reached")

    def has_focus() -> str:
        """Its words; where nothing has the focus, the whole page would be named."""
        active = "document.activeElement"
        return str(page.script(f"{active} === document.body ? '' : {active}.innerText ?? ''"))

    def next_one() -> str:
        page.press("Tab")
        return has_focus()

    assert {"Overview", "Jobs", "Log out"} <= {next_one() for _ in range(12)}
    wait_until(lambda: "reached" in next_one(), 60, "a job has the focus")
    before = page.text_of("table[aria-label='Running jobs']")
    wait_until(lambda: page.text_of("table[aria-label='Running jobs']") != before, 60, "the table has changed")
    assert "reached" in has_focus(), "an update does not take the focus away"
    page.press("Enter")
    page.wait_for("Events")


# --- the service goes away


def test_a_restart_of_the_service_is_survived(
    page: Page, page_of: Any, client: Client, service: Service, tmp_path: Path
) -> None:
    with page_alone(service.url, tmp_path / "log") as url:
        afar = page_of(url=url)
        submit(client, "outlives")
        page.wait_for("outlives")
        afar.wait_for("outlives")
        service.kill()
        page.wait_for("Connection lost")
        afar.wait_for("The service does not answer")
        assert "outlives" in afar.text, "what was last seen stays"
        service.start()
        page.wait_without("Connection lost")
        afar.wait_without("The service does not answer")
        with service.client() as fresh:
            submit(fresh, "afterwards")
        page.wait_for("afterwards")
        afar.wait_for("afterwards")
    page.problems.clear()
