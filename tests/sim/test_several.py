"""Several traces and seeds: which runs there are, what is compared with what, and what page and files say of it."""

import csv
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schedulearn.lab.report import plots
from schedulearn.lab.sim.export import Run, write_csv
from schedulearn.lab.sim.run import Request
from schedulearn.lab.sim.several import as_json, prepare_all, rows, table
from schedulearn.lab.sim.several_report import write_report

DRAWN = "synthetic:philly?jobs=30&load=2"


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    path = tmp_path / "recorded.csv"
    path.write_text("submission_time,num_gpu,duration,deadline\n0,2,100,5000\n10,1,50,5000\n20,1,10,5000\n")
    return str(path)


def request(*policies: str, **more: Any) -> Request:
    return Request(cluster="2x1", policies=policies or ["fifo"], **more)


def figures(policy: str, seed: int, jct: float, trace: str = "a", completed: int = 3) -> dict[str, Any]:
    keys = ("p99_jct", "makespan", "mean_slowdown", "worst_slowdown")
    return {"policy": policy, "trace": trace, "seed": seed, "completed": completed, "avg_jct": jct,
            **dict.fromkeys(keys, jct)}  # fmt: skip


# --- which runs there are


@pytest.mark.parametrize(
    ("policy", "more", "seeds"),
    [
        ("fifo", {}, [1]),  # a recorded trace is the same with every seed
        ("k8s-default", {}, [1, 2, 3]),  # it draws lots
        ("k8s-default", {"params": {"seed": 7}}, [1]),
        ("fifo", {"elastic": True}, [1, 2, 3]),  # which curves jobs have
        ("fifo", {"node_mtbf": "1h"}, [1, 2, 3]),  # when machines fail
        ("k8s-default", {"seed": 40}, [40, 41, 42]),
    ],
)
def test_a_trace_is_run_with_every_seed_only_if_something_is_drawn(
    recorded: str, policy: str, more: dict[str, Any], seeds: list[int]
) -> None:
    studies = prepare_all(request(policy, **more), [recorded], 3)
    assert [study.options.seed for study in studies] == seeds


def test_each_seed_draws_another_workload_unless_the_trace_names_its_own() -> None:
    drawn = prepare_all(request(), [DRAWN], 3)
    assert len({study.workload.jobs[0].arrival for study in drawn}) == 3
    assert len(prepare_all(request(), [f"{DRAWN}&seed=5"], 3)) == 1


def test_traces_of_one_name_are_told_apart(recorded: str) -> None:
    studies = prepare_all(request(), [DRAWN, "synthetic:philly?jobs=9", recorded], 1)
    assert [study.workload.name for study in studies] == [DRAWN, "synthetic:philly?jobs=9", "recorded"]


# --- what is compared with what


def test_each_run_is_compared_with_the_baseline_of_the_same_trace_and_seed() -> None:
    told = [figures("mine", 2, 160.0), figures("fifo", 1, 100.0), figures("mine", 1, 90.0), figures("fifo", 2, 200.0),
            figures("fifo", 1, 50.0, "b"), figures("mine", 1, 35.0, "b")]  # fmt: skip
    mine, fifo = rows(told, "fifo")
    change = mine.changes["avg_jct"]
    assert (mine.policy, mine.runs, mine.means["avg_jct"]) == ("mine", 3, pytest.approx(95.0))
    assert change.mean == pytest.approx((-20 - 10 - 30) / 3)
    assert change.high == pytest.approx(-20 + 24.84, abs=0.01)  # Student's t with three pairs
    assert fifo.changes == {}


def test_a_pair_counts_only_where_both_completed_as_much() -> None:
    told = [figures("fifo", 1, 100.0), figures("fifo", 2, 100.0), figures("mine", 1, 10.0, completed=1),
            figures("mine", 2, 90.0), figures("broken", 1, 0.0, completed=0)]  # fmt: skip
    found = {row.policy: row for row in rows(told, "fifo")}
    assert found["mine"].changes["avg_jct"].mean == pytest.approx(-10.0)
    assert not found["mine"].changes["avg_jct"].known, "one pair says nothing of others"
    assert "broken" not in found


def test_the_table_marks_what_is_beyond_chance() -> None:
    told = [figures("fifo", seed, 100.0 + seed) for seed in range(4)]
    told += [figures("faster", seed, 50.0 + seed) for seed in range(4)]
    told += [figures("slower", seed, 150.0 + seed) for seed in range(4)]
    told += [figures("alike", seed, 100.0 + seed + (-1) ** seed) for seed in range(4)]
    heads, lines = table(rows(told, "fifo"))
    assert heads[:4] == ["policy", "runs", "avg JCT (min)", "difference"]
    assert {line[0].text: line[3].sure for line in lines} == {"fifo": 0, "faster": -1, "slower": 1, "alike": 0}


def test_json_has_no_infinity() -> None:
    told = as_json([figures("fifo", 1, 100.0), figures("mine", 1, 90.0)], "fifo")
    assert told["policies"][1]["changes"]["avg_jct"] == {"mean": pytest.approx(-10.0), "low": None, "high": None}
    json.dumps(told, allow_nan=False)


# --- page and files


@pytest.fixture
def runs(recorded: str) -> list[Run]:
    studies = prepare_all(request("fifo", "srtf", oracle=True), [DRAWN, recorded], 3)
    return [(study, study.run(choice)) for study in studies for choice in study.choices]


def test_every_job_of_every_run_is_in_the_files(runs: list[Run], tmp_path: Path) -> None:
    files = write_csv(tmp_path, runs)
    assert [file.name for file in files] == ["results.csv", "jobs-fifo.csv", "jobs-srtf.csv"]
    with open(tmp_path / "jobs-srtf.csv", newline="") as file:
        jobs = Counter((job["policy"], job["trace"], job["seed"]) for job in csv.DictReader(file))
    assert jobs == {**{("srtf", "synthetic-philly", str(seed)): 30 for seed in (1, 2, 3)}, ("srtf", "recorded", "1"): 3}
    with open(tmp_path / "results.csv", newline="") as file:
        assert [(row["policy"], row["trace"], row["seed"]) for row in csv.DictReader(file)][-2:] == [
            ("fifo", "recorded", "1"),
            ("srtf", "recorded", "1"),
        ]


def test_the_page_has_a_row_and_a_plot_for_all_runs_and_for_each_trace(runs: list[Run], tmp_path: Path) -> None:
    page, short = write_report(tmp_path, runs, [], "fifo", ["schedulearn", "compare"])
    text = page.read_text()
    assert "2 traces, 4 runs, 2 policies" in text
    assert "synthetic-philly: seeds 1, 2, 3; recorded: seed 1." in text
    assert "recorded alone" in text
    assert text.count("<circle") == 3 * 5  # srtf alone, five metrics: of all, and of each trace
    assert not re.search(r"\b(inf|nan)\b", text)
    summary = json.loads(short.read_text())
    assert [row[0] for row in summary["rows"]] == ["fifo", "srtf"]
    assert all(len(row) == len(summary["columns"]) for row in [*summary["rows"], *summary["best"]])


@pytest.mark.parametrize("ends", [(-30.0, 10.0), (-0.001, 0.0), (5.0, 900.0), None])
def test_an_interval_lies_within_its_chart(ends: tuple[float, float] | None) -> None:
    mean = sum(ends) / 2 if ends else 0.0
    drawn = plots.interval_chart([plots.Interval("mine", mean, ends, 0)], "change")
    width = float(re.search(r'viewBox="0 0 (\d+)', drawn).group(1))  # type: ignore[union-attr]
    places = [float(x) for x in re.findall(r'(?:cx="|M|H)([-\d.]+)', drawn)]
    assert all(math.isfinite(x) and 0 <= x <= width for x in places)
