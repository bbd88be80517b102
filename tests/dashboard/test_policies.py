"""The pages for policies, comparisons and reports in a real Chromium, used as people would use them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from schedulearn.client import FINISHED, Client
from support.browser import Browser, Page
from support.service import Service
from support.waiting import wait_until

from .conftest import link, submit

PATIENCE = 120.0
UNHURRIED = 300.0  # seconds for a comparison: it has the lowest priority, and whatever else runs goes first
MARKUP = '<img src=x onerror=alert(1)>"&'
# What a report may not do: run a script, reach the page around it, load anything.
HOSTILE = """<!doctype html><title>x</title><h1 id=words>a report</h1><img src="http://127.0.0.1:9/x.png">
<script>document.getElementById('words').textContent = 'a script ran'; top.document.title = 'taken over'</script>
<p onclick="alert(1)">text</p>"""


def record(number: int, seconds: float) -> str:
    return json.dumps({"id": number, "submitted_at": number, "run_seconds": seconds, "gpus": 1}) + "\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(record(i, 100 + i) for i in range(40)))
    return file


def asks_for_file(page: Page) -> bool:
    page.script("[...document.querySelectorAll('.q-radio')].at(-1).click()")
    return bool(page.script("document.querySelector('.pick').getClientRects().length"))


def is_done(client: Client, title: str) -> None:
    """The newest comparison is this one, and has its report."""
    wait_until(lambda: _state(client, title) not in ("", "running"), UNHURRIED, f"{title} is over")
    assert _state(client, title) == "done"


def _state(client: Client, title: str) -> str:
    newest = client.studies()[:1]
    return newest[0]["state"] if newest and newest[0]["title"] == title else ""


@pytest.fixture
def clean(client: Client) -> None:
    """No report of another test."""
    for study in client.studies():
        client.delete_study(study["name"])


def test_every_policy_is_explained_and_another_one_takes_over(page: Page, client: Client) -> None:
    policy = client.policy()
    page.open(f"{client.url}/policies")
    for name, about in policy["available"]["presets"].items():
        page.wait_for(about)
        assert policy["available"]["details"][name]["more"] in page.text
    assert "alpha=0.05" in page.text
    page.click("Use flowcon")
    page.fill('.dialog input[aria-label="alpha"]', "2")
    page.click("Use it")
    page.wait_for("0 to below 1")  # the service's own words, and the dialog stays
    assert client.policy()["preset"] == policy["preset"], "nothing was changed"
    page.fill('.dialog input[aria-label="alpha"]', "0.2")
    page.click("Use it")
    wait_until(lambda: client.policy()["params"] == {"alpha": 0.2}, PATIENCE, "it is set")
    page.wait_for("alpha=0.2")
    assert page.text_of('[aria-label="flowcon"] .pill') == "current"
    client.set_policy(policy["preset"])
    wait_until(lambda: page.text_of('[aria-label="flowcon"] .pill') == "", PATIENCE, "what others change is seen")


def test_a_user_may_compare_but_not_switch(page_of: Callable[..., Page], client: Client) -> None:
    if "eve" not in {user["name"] for user in client.users()}:
        client.add_user("eve")
    page = page_of("/policies", user="eve")
    page.wait_for("Current policy")
    assert page.count('[aria-label="Use fifo"]') == 0
    assert "Compare" in page.text


@pytest.mark.usefixtures("clean")
def test_what_if_on_the_live_queue_and_a_button_to_switch(page: Page, client: Client) -> None:
    client.set_policy("fifo")
    page.open(f"{client.url}/policies")
    page.click("Compare")
    page.wait_for("no job runs or waits")
    job = submit(client, "learns", steps=30)
    wait_until(lambda: (client.job(job)["progress"] or {}).get("step") == 30, PATIENCE, "it has reported")
    waits = submit(client, "waits", resources={"cpus": client.nodes()[0]["capacity"]["cpus"]})
    page.click("Compare")
    is_done(client, "the queue now")
    page.wait_for("What if: the jobs of")
    table = '[aria-label="When each job ends"]'
    heads = page.text_of(f"{table} thead").split()
    assert heads == ["Job", "State", "fifo", "(now)", "srjf", "schedulearn"]
    assert page.count(f"{table} tbody tr") == 2
    assert page.count(f'{table} a[href="/jobs/{waits}"]') == 1
    assert "fifo in force" in page.text_of('[aria-label="Average completion"]')
    assert f"?: nothing is known of how long job {waits} will run" in page.text
    page.resize(360, 760)
    assert page.script("document.documentElement.scrollWidth") <= 360
    page.resize(1280)
    page.click("Switch to srjf")
    page.click("Use it")
    wait_until(lambda: client.policy()["preset"] == "srjf", PATIENCE, "it is set")
    page.open(f"{client.url}/results")
    page.click("the queue now")
    page.wait_for("What if: the jobs of")
    client.set_policy("fifo")


@pytest.mark.usefixtures("clean")
def test_what_if_without_a_button_for_who_may_not_switch(page_of: Callable[..., Page], client: Client) -> None:
    if "eve" not in {user["name"] for user in client.users()}:
        client.add_user("eve")
    submit(client)
    page = page_of("/policies", user="eve")
    page.click("Compare")
    is_done(client, "the queue now")
    page.wait_for("What if: the jobs of")
    assert "Switch to" not in page.text


@pytest.mark.usefixtures("clean")
def test_the_history_is_compared_and_the_report_shown(page: Page, client: Client) -> None:
    job = submit(client, "short", "print('loss 0.5')")
    wait_until(lambda: client.job(job)["state"] in FINISHED, PATIENCE, "it is over")
    page.open(f"{client.url}/policies")
    page.wait_for("this service's history")
    page.script("document.querySelectorAll('.q-radio')[1].click()")
    page.click("Compare")
    is_done(client, "history on our servers")
    page.wait_for("Comparison: history on our servers")
    page.wait_for("avg JCT")
    page.click("The whole report")
    [study] = client.studies()
    assert page.script("document.querySelector('iframe').contentDocument") is None, "a frame without a way out"
    address = f"{client.url}/results/{study['name']}/report"
    wait_until(lambda: page.script("1") and address in page.requests, PATIENCE, "the report is loaded")
    page.open(f"{client.url}/results")
    page.wait_for("history on our servers")
    page.click("history on our servers")
    page.wait_for("comparison by admin")
    assert page.address == f"/results/{study['name']}"
    page.open(address)  # it is as harmless on a page of its own, and its own legend works
    page.wait_for("How this was made")
    assert page.script("self.origin") == "null"
    page.click("fifo")
    wait_until(lambda: page.count('polyline[data-series="0"].off') > 0, PATIENCE, "the line is hidden")


@pytest.mark.usefixtures("clean")
def test_a_trace_is_picked_compared_and_cancelled(page: Page, client: Client, trace: Path, tmp_path: Path) -> None:
    page.open(f"{client.url}/policies")
    page.wait_for("a trace file")
    wait_until(lambda: asks_for_file(page), PATIENCE, "a field for a file")
    page.click("Compare")
    page.wait_for("Choose a trace first")
    large = tmp_path / "large.csv"
    large.write_bytes(b"x" * 800_001)
    page.pick(".pick input", large)
    page.wait_for("too large, at most 800 kB")
    page.pick(".pick input", trace)
    page.wait_for("mine.jsonl, ")
    page.fill('input[aria-label="Cluster"]', "nonsense")
    page.click("Compare")
    page.wait_for("is not a cluster")
    page.fill('input[aria-label="Cluster"]', "2x4")
    page.click("Compare")
    is_done(client, "mine.jsonl on 2x4")
    page.wait_for("40 jobs on 2 nodes")
    assert len(client.studies()) == 1
    long = tmp_path / "long.jsonl"
    long.write_text("".join(record(i, 5000 + i) for i in range(9_000)))  # more than one piece
    page.pick(".pick input", long)
    page.wait_for("long.jsonl, ")
    page.fill('input[aria-label="Cluster"]', "1x1")
    page.script("document.querySelectorAll('.ticks [aria-checked=false]').forEach(box => box.click())")  # for long
    page.click("Compare")
    wait_until(lambda: page.count("[role=progressbar]") == 1, PATIENCE, "a bar")
    total = wait_until(lambda: (client.studies()[0]["progress"] or {}).get("total"), UNHURRIED, "it counts")
    assert total % 9_000 == 0, "all pieces have come"
    page.click("Cancel")
    page.wait_for("cancelled by admin")
    assert client.studies()[0]["state"] == "cancelled"
    wait_until(lambda: page.count("[role=progressbar]") == 0, PATIENCE, "no bar")


@pytest.mark.usefixtures("clean")
def test_reports_are_listed_read_and_deleted(
    browser: Browser, page_of: Callable[..., Page], client: Client, service: Service
) -> None:
    page = page_of("/results")
    page.wait_for("No report yet.")
    folder = service.data / "reports" / "fixed-3"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text(HOSTILE)
    rows = [["average", "flowcon", "300 s", MARKUP, "+1 %"]]
    columns = ["measure", "policy", "published", "ours", "difference"]
    told = {"kind": "experiment", "title": MARKUP, "about": "Three jobs.", "columns": columns, "rows": rows}
    (folder / "report.json").write_text(json.dumps(told))
    page.wait_for(MARKUP)  # it appears by itself
    page.wait_for("experiment")
    with browser.page() as hostile:  # here the browser may complain of what it refused
        hostile.log_in(link(service))
        hostile.wait_for("Overview")
        hostile.open(f"{client.url}/results/fixed-3")
        hostile.wait_for("Three jobs.")
        wait_until(lambda: hostile.count("iframe.report") == 1, PATIENCE, "the frame")
        assert MARKUP in hostile.text_of("table")
        assert hostile.count("img[src=x]") == 0
        hostile.open(f"{client.url}/results/fixed-3/report")
        hostile.wait_for("a report")
        assert "a script ran" not in hostile.text
        assert hostile.script("document.title") == "x"
    (folder / "report.html").write_text("<h1>a report</h1>")
    if "eve" not in {user["name"] for user in client.users()}:
        client.add_user("eve")
    other = page_of("/results/fixed-3", user="eve")
    other.wait_for("Three jobs.")
    assert "Delete" not in other.text
    page.open(f"{client.url}/results/fixed-3")
    page.click("Delete")
    page.wait_for("deleted for good")
    page.click("Delete it")
    wait_until(lambda: page.address == "/results", PATIENCE, "back to the list")
    page.wait_for("No report yet.")
    assert not folder.exists()
    page.open(f"{client.url}/results/fixed-3")
    page.wait_for("There is no report fixed-3")
    page.problems.clear()  # the browser itself notes the 404
