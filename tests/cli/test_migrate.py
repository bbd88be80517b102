"""The verb `migrate`, and what is shown of moves."""

from dataclasses import replace

import pytest

from support.application import GPU2
from support.builders import KILLED


@pytest.fixture
def moving(service):
    """Job 17 runs on `gpu2`; `local` could take it."""
    assert service.submit() == 17
    return service


def test_it_is_asked_for(cli, moving):
    result = cli("migrate", 17, "local")
    assert result.code == 0
    (asked,) = moving.asked("POST", "/jobs/17/migrate")
    assert asked.body == {"node": "local"}
    assert "Job 17 (mnist-17) will move to local." in result.out
    assert "schedulearn describe 17" in result.out
    assert [place.node for place in moving.store.job(17).placement] == ["local"]
    assert cli("migrate", 17, "gpu2", "--json").json["id"] == 17


def test_it_may_be_waited_for(cli, moving):
    assert cli("migrate", 17, "local").code == 0
    result = cli("migrate", 17, "gpu2", "--wait")  # the earlier move is not taken for this one
    assert result.code == 0
    assert "Job 17 (mnist-17) moved from local to gpu2; 0 s lost." in result.out
    assert cli("migrate", 17, "local", "--wait", "--json").json["migrations"] == 3


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("drain", {"node": "local", "drain": True}, "not moved to local: node local"),
        ("cancel", {"job": 17}, "not moved to local: cancelled by ann"),
    ],
)
def test_what_comes_between_is_told(cli, moving, kind, fields, words):
    moving.meanwhile = lambda: moving.bench.ask(kind, **fields)
    result = cli("migrate", 17, "local", "--wait", "--json")
    assert (result.code, result.out) == (1, "")
    assert words in result.err


def test_a_pause_that_was_asked_for_before_is_told(cli, moving):
    moving.bench.ask("pause", 17)
    result = cli("migrate", 17, "local", "--wait", "--json")
    assert (result.code, result.out) == (1, "")
    assert "paused" in result.err


def test_one_that_is_deleted_meanwhile_is_not_waited_for(cli, moving):
    moving.meanwhile = lambda: moving.bench.ask("delete", 17)
    assert cli("migrate", 17, "local", "--wait").code == 3


def test_a_refusal_names_the_field(cli, moving):
    result = cli("migrate", 17, "gpu3")
    assert result.code == 2
    assert "there is no node 'gpu3'" in result.err
    assert "allowed: a node with room: local" in result.err
    assert cli("migrate", 99, "local").code == 3


def test_without_a_node_the_possible_ones_are_listed(cli, moving):
    moving.set_node(replace(GPU2, name="gpu3"))
    moving.lose("gpu3")
    moving.turn()
    shown = cli("migrate", 17)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert [line.split(maxsplit=1) for line in lines[1:3]] == [["gpu3", "gpu3 is lost"], ["local", "yes"]]
    assert "schedulearn migrate 17 local" in shown.out
    assert cli("migrate", 17, "--json").json == [
        {"node": "gpu3", "problem": "gpu3 is lost"},
        {"node": "local", "problem": None},
    ]
    assert cli("migrate", 17, "--wait").code == 2, "nothing would be waited for"
    assert moving.asked("POST", "/jobs/17/migrate") == []


def test_there_may_be_no_other_node(cli, jobs):
    assert cli("nodes", "remove", "gpu2").code == 0
    assert "no other node" in cli("migrate", 17).out


def test_describe_shows_moves_and_what_they_cost(cli, moving):
    moving.stubborn = True
    cli("migrate", 17, "local")
    moving.clock.pass_time(4.5)
    moving.end(17, KILLED)
    cli("migrate", 17, "gpu2")
    shown = cli("describe", 17).out
    assert "moved 1×, 4.5 s lost by moving" in shown
    assert "moving to" in shown
    listed = next(job for job in cli("ls", "--json").json if job["id"] == 17)
    assert (listed["migrations"], listed["migration_seconds"], listed["moving_to"]) == (1, 4.5, ["gpu2"])
