"""`experiment`: the list, a run, its files, and what is refused."""

from pathlib import Path
from typing import Any

import pytest


def test_the_list(cli: Any) -> None:
    found = cli("experiment", "list", "--json").json
    assert {"fixed-3", "mixed-30", "saving"} <= {one["name"] for one in found}
    assert next(one for one in found if one["name"] == "fixed-3")["policies"][0] == "no limits"
    assert {one["name"] for one in found if one["live"]} == {
        *("fixed-3", "fixed-3-intervals", "fixed-3-thresholds", "random-5", "random-10", "random-15"),
        *("subscription", "saving"),
    }
    for args in (("experiment",), ("experiment", "list")):
        assert "live only" in cli(*args).out


@pytest.mark.slow
def test_a_run(cli: Any, tmp_path: Path) -> None:
    result = cli("experiment", "run", "random-10", "--seeds", "2", "--scale", "0.5", "--out", tmp_path / "new")
    assert result.code == 0
    assert "1,384.9 s" in result.out
    assert "95 % interval" in result.err
    assert {"report.html", "figures.csv", "completion.png"} <= {file.name for file in (tmp_path / "new").iterdir()}


def test_json(cli: Any) -> None:
    found = cli("experiment", "run", "random-10", "--seeds", "1", "--json").json
    assert (found["experiment"], found["seeds"]) == ("random-10", 1)
    assert found["policies"][0]["average_change"]["low"] is None, "one seed has no interval"
    assert {"measure", "policy", "published", "ours", "difference", "why"} == found["figures"][0].keys()


def test_chosen_policies_beside_the_baseline(cli: Any) -> None:
    args = (
        "experiment",
        "run",
        "fixed-3",
        "--seeds",
        "1",
        "--policy",
        "schedulearn",
        "--policy",
        "flowcon beta=2, 5 %, 20 s",
    )
    found = cli(*args, "--json").json
    ours = ["schedulearn", "schedulearn, steps announced"]
    assert [one["policy"] for one in found["policies"]] == ["flowcon beta=2, 5 %, 20 s", *ours]
    assert {one["policy"] for one in found["figures"]} == {"no limits", "flowcon beta=2, 5 %, 20 s"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nothing",), "there is no experiment 'nothing'"),
        (("mixed-20", "--live"), "mixed-20 cannot be run live: it needs 4 machines"),
        (("migration", "--live"), "its jobs need 3 × 4 GPUs"),
        (("core-mix", "--live"), "whole cores"),
        (("fixed-3", "--live", "--executor", "both"), "'both' is not one of 'process', 'docker'"),
        (("fixed-3", "--live", "--executor", "docker"), "--image"),
        (("fixed-3", "--policy", "specon"), "fixed-3 has no policy 'specon'"),
        (("saving",), "can only be run live"),
        (("fixed-3", "--scale", "0.01"), "cannot be run at 0.01"),
        (("fixed-3", "--seeds", "0"), "--seeds"),
    ],
)
def test_what_is_refused(cli: Any, args: tuple[str, ...], words: str) -> None:
    result = cli("experiment", "run", *args)
    assert result.code == 2
    assert words in result.err


def test_a_folder_that_cannot_be_made(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = cli("experiment", "run", "random-10", "--seeds", "1", "--out", tmp_path / "file" / "x")
    assert result.code == 2
    assert "--out" in result.err
