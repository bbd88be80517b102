"""`compare`: the table with its best values, JSON, files, and a clean end."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.waiting import wait_until

pytestmark = pytest.mark.slow

TRACE = "synthetic:philly?jobs=150&load=2"


def test_the_table_marks_the_best(cli: Any) -> None:
    result = cli("compare", "--trace", TRACE, "--cluster", "2x4", "--policies", "fifo,srjf", "--oracle")
    assert result.code == 0
    head, fifo, srjf, _, fairness, *_ = result.out.splitlines()
    assert "slowdown" in fairness
    assert head.split()[:3] == ["policy", "avg", "JCT"]
    assert (fifo.split()[0], srjf.split()[0]) == ("fifo", "srjf")
    assert srjf.split()[1].endswith("*")
    assert not fifo.split()[1].endswith("*")
    assert "the true ones (--oracle)" in result.err


def test_json_is_a_list_in_the_order_asked_for(cli: Any) -> None:
    result = cli("compare", "--trace", TRACE, "--cluster", "2x4", "--policies", "srjf, fifo", "--json")
    assert [figures["policy"] for figures in result.json] == ["srjf", "fifo"]
    assert all(figures["completed"] == 150 for figures in result.json)


def test_files(cli: Any, tmp_path: Path) -> None:
    given = ("--policies", "fifo,elastic-fifo", "--processes", 1, "--out", tmp_path / "out")
    assert cli("compare", "--trace", TRACE, "--cluster", "2x4", *given).code == 0
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["jobs-elastic-fifo.csv", "jobs-fifo.csv", "report.html", "report.json", "results.csv"]
    summary = json.loads((tmp_path / "out" / "report.json").read_text())
    assert summary["about"] == "150 jobs on 2 nodes"
    assert summary["columns"][:2] == ["policy", "avg JCT (d)"]
    assert [row[0] for row in summary["rows"]] == ["fifo", "elastic-fifo"]
    assert all(len(row) == len(summary["columns"]) for row in [*summary["rows"], *summary["best"]])


@pytest.mark.parametrize("processes", [1, 2])
def test_another_program_can_follow_how_far_it_is(cli: Any, tmp_path: Path, processes: int) -> None:
    noted = tmp_path / "progress.json"
    given = ("--policies", "fifo,srjf", "--processes", processes, "--progress", noted)
    assert cli("compare", "--trace", TRACE, "--cluster", "2x4", *given).code == 0
    told = json.loads(noted.read_text())
    assert told["total"] == 300
    assert 0 <= told["done"] <= 300
    assert told["policy"] in ("fifo", "srjf")


def test_a_policy_that_fails_keeps_no_other_from_its_result(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from schedulearn.core.policies.stages import Order\n"
        "class Broken(Order):\n    def key(self, job, now, facts):\n        return 1 / 0\n"
    )
    given = ("--policies", f"fifo,{file}:Broken", "--json")
    result = cli("compare", "--trace", TRACE, "--cluster", "2x4", *given)
    assert result.code == 1
    assert [figures["policy"] for figures in result.json] == ["fifo"]
    assert "ZeroDivisionError" in result.err


def test_unknown_policies_are_found_before_anything_runs(cli: Any) -> None:
    result = cli("compare", "--trace", TRACE, "--cluster", "2x4", "--policies", "fifo,srtff")
    assert (result.code, result.out) == (2, "")
    assert "did you mean 'srtf'" in result.err


def test_a_terminal_shows_a_table_that_fits(terminal: Callable[..., tuple[int, str]]) -> None:
    code, shown = terminal(60, "compare", "--trace", TRACE, "--cluster", "2x4", "--policies", "fifo,srjf")
    assert code == 0
    assert "avg JCT" in shown
    assert "makespan" not in shown


def test_ctrl_c_ends_it_and_its_processes() -> None:
    command = [sys.executable, "-m", "schedulearn.cli", "compare", "--trace", "synthetic:philly?jobs=50000&load=9"]
    child = subprocess.Popen(
        [*command, "--cluster", "2x4", "--policies", "srtf,srsf", "--processes", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    # As soon as its processes are there, so while they still import: that is when they would complain of Ctrl-C.
    there = "one for each policy, and Python's tracker of them"
    wait_until(lambda: len(psutil.Process(child.pid).children()) > 2, 60, there)
    os.killpg(child.pid, signal.SIGINT)
    # The pipe is closed only when the last of its processes has gone.
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"Traceback" not in errors


def test_several_traces_and_seeds_are_compared_run_by_run(cli: Any, tmp_path: Path) -> None:
    given = ("--trace", TRACE, "--trace", "synthetic:philly?jobs=150&seed=1", "--seeds", 2, "--cluster", "2x4")
    noted = tmp_path / "progress.json"
    more = ("--policies", "fifo,srjf", "--baseline", "srjf", "--out", tmp_path / "out", "--progress", noted)
    told = cli("compare", *given, *more, "--json").json
    assert told["baseline"] == "srjf"
    assert [(run["policy"], run["seed"]) for run in told["runs"]] == [
        (p, s) for s in (1, 2, 1) for p in ("fifo", "srjf")
    ]
    assert [(row["policy"], row["runs"], bool(row["changes"])) for row in told["policies"]] == [
        ("fifo", 3, True),
        ("srjf", 3, False),
    ]
    assert [len(trace["policies"]) for trace in told["traces"]] == [2, 2]
    assert json.loads(noted.read_text())["total"] == 2 * 3 * 150
    assert (tmp_path / "out" / "report.html").exists()


def test_several_runs_as_a_table(cli: Any) -> None:
    result = cli("compare", "--trace", TRACE, "--seeds", 3, "--cluster", "2x4", "--policies", "fifo,srjf")
    head, fifo, srjf = result.out.splitlines()
    assert head.split()[:4] == ["policy", "runs", "avg", "JCT"]
    assert (fifo.split()[:2], srjf.split()[:2]) == (["fifo", "3"], ["srjf", "3"])
    assert re.search(r"[+-]\d+\.\d+ % \[[+-]", srjf)
    assert "Student's t; the baseline is fifo" in result.err


def test_a_policy_that_fails_in_every_run_is_told_once(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from schedulearn.core.policies.stages import Order\n"
        "class Broken(Order):\n    def key(self, job, now, facts):\n        return 1 / 0\n"
    )
    result = cli("compare", "--trace", TRACE, "--seeds", 2, "--cluster", "2x4", "--policies", f"fifo,{file}:Broken")
    assert (result.code, result.err.count("error: the policy ")) == (1, 1)


@pytest.mark.parametrize(
    ("option", "words"),
    [(("--baseline", "srtf"), "--baseline: 'srtf' is not one of the policies"), (("--seeds", 0), "--seeds")],
)
def test_what_cannot_be_compared(cli: Any, option: tuple[Any, ...], words: str) -> None:
    result = cli("compare", "--trace", TRACE, "--cluster", "2x4", "--policies", "fifo,srjf", *option)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
