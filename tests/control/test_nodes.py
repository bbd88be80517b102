"""Nodes that are added, fall silent, come back, are given up, labelled and removed."""

from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain import commands as cmd
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.ids import DeviceId, NodeName, WorkerId
from schedulearn.core.domain.node import Device, Node, NodeState
from schedulearn.core.domain.states import JobState
from support.builders import KILLED, World, job, node

A, B = NodeName("a"), NodeName("b")
WHY = "the engine does not answer"


def docker(name: str, **more: Any) -> Node:
    usual = {"default_image": "python", "address": f"ssh://{name}", "engine": f"id-{name}"}
    return replace(node(name, cpus=2, executor="docker"), **(usual | more))


def state_of(w: World, name: NodeName = A) -> NodeState:
    ledger = w.state.ledger.node(name)
    assert ledger
    return ledger.node.state


def kinds(w: World) -> list[str]:
    return [event.kind for event in w.history]


# --- lost and back


def test_a_lost_node_keeps_its_jobs_and_gets_no_new_ones() -> None:
    w = World(node("a", cpus=2))
    w.submit(job(1))
    w.started(1)
    w.cycle(ev.NodeLost(w.now, A, WHY))
    assert (state_of(w), w.job(1).state) == (NodeState.LOST, JobState.RUNNING)
    ledger = w.state.ledger.node(A)
    assert ledger
    assert (ledger.node.problem, ledger.node.lost_at) == (WHY, w.now)
    assert w.submit(job(2)) == []
    w.now += 60
    w.cycle(ev.NodeLost(w.now, A, "again"))
    assert ledger.node.lost_at == 0.0, "it is lost since the first time"
    w.cycle(ev.NodeSeen(w.now, node("a", cpus=2)))
    assert (state_of(w), w.running()) == (NodeState.UP, [1, 2])
    assert w.job(1).attempt == 1, "nothing was lost"
    assert w.state.ledger.node(A).node == node("a", cpus=2)  # type: ignore[union-attr]


def test_a_node_that_is_given_up_loses_its_workers_and_they_go_on_elsewhere() -> None:
    w = World(node("a", cpus=1), node("b", cpus=1))
    w.submit(job(1, max_restarts=0))
    w.started(1)
    assert w.where(1) == ["a"]
    w.cycle(ev.NodeLost(w.now, A, WHY))
    w.cycle(ev.NodeGone(w.now, A, "no answer for 5 min"))
    stop = cmd.StopWorker(WorkerId(w.job(1).id, 1, 0), A, 0.0)
    assert stop in w.commands, "should it come back, its container is stopped"
    assert (w.where(1), w.job(1).attempt, w.job(1).restarts) == (["b"], 2, 0)
    w.cycle(ev.NodeGone(w.now, A, "no answer for 6 min"))
    assert w.commands == [], "only once"
    w.cycle(ev.NodeSeen(w.now, node("a", cpus=1)))
    w.cycle(ev.WorkerExited(w.now, WorkerId(w.job(1).id, 1, 0), KILLED))
    assert w.where(1) == ["b"], "the end of the stale attempt changes nothing"


def test_workers_elsewhere_of_a_job_that_lost_one_are_stopped_and_it_is_queued_again() -> None:
    w = World(node("a", cpus=1), node("b", cpus=1))
    w.submit(job(1, workers=2))
    w.started(1)
    w.cycle(ev.NodeLost(w.now, A, WHY))
    w.cycle(ev.NodeGone(w.now, A, "gone"))
    assert w.job(1).state is JobState.STOPPING
    survivor = next(worker for worker in w.state.attempts[w.job(1).id].running)
    w.cycle(ev.WorkerExited(w.now, survivor.id, KILLED))
    assert (w.job(1).state, w.job(1).restarts) == (JobState.QUEUED, 0)


def test_a_job_that_was_cancelled_on_a_node_that_is_given_up_is_cancelled() -> None:
    w = World(node("a", cpus=1))
    w.submit(job(1))
    w.started(1)
    number = w.job(1)
    w.cycle(ev.NodeLost(w.now, A, WHY), ev.CancelAsked(w.now, number.id, "ann"))
    w.cycle(ev.NodeGone(w.now, A, "gone"))
    assert number.state is JobState.CANCELLED


def test_draining_outlives_a_loss() -> None:
    w = World(node("a"))
    w.cycle(ev.DrainAsked(w.now, A, "ann", True))
    w.cycle(ev.NodeLost(w.now, A, WHY))
    assert state_of(w) is NodeState.LOST
    w.cycle(ev.NodeSeen(w.now, node("a")))
    assert state_of(w) is NodeState.DRAINING
    w.cycle(ev.NodeLost(w.now, A, WHY), ev.DrainAsked(w.now, A, "ann", False))
    assert state_of(w) is NodeState.LOST
    w.cycle(ev.NodeSeen(w.now, node("a")))
    assert state_of(w) is NodeState.UP


# --- adding


def probed(found: Node | None, *problems: tuple[str, str]) -> ev.NodeProbed:
    return ev.NodeProbed(0.0, A, found, "ann", "r1", problems, ("a note",))


def test_a_node_that_can_be_used_is_added_and_the_answer_is_in_the_history() -> None:
    w = World()
    w.submit(job(1))
    w.cycle(probed(docker("a")))
    assert cmd.AddNode(A) in w.commands
    assert w.changes.nodes == {A: docker("a")}
    assert w.running() == [1]
    (added,) = [event for event in w.history if event.kind == "node_added"]
    assert added.data == {"request": "r1", "notes": ["a note"]}


@pytest.mark.parametrize(
    ("event", "field", "words"),
    [
        (probed(None, ("address", "nothing listens")), "address", "nothing listens"),
        (probed(docker("b")), "name", "a node b already"),
        (probed(docker("a", engine="id-b")), "address", "engine of node b, which is at ssh://b"),
        (probed(docker("a", devices=(Device(DeviceId("G")),))), "address", "node b gives out the same GPUs (G)"),
    ],
)
def test_a_node_that_cannot_be_used_is_refused(event: ev.NodeProbed, field: str, words: str) -> None:
    w = World(docker("b", devices=(Device(DeviceId("G")),)))
    w.cycle(event)
    assert w.commands == []
    assert w.changes.nodes == {}
    (refused,) = w.history
    assert refused.kind == "node_refused"
    [problem] = refused.data["problems"]
    assert (refused.data["request"], problem["field"]) == ("r1", field)
    assert words in problem["problem"]


# --- which jobs suit which nodes


@pytest.mark.parametrize(
    ("wants", "where"),
    [
        ({}, ["plain"]),
        ({"image": "torch"}, ["bare"]),
        ({"setup": ("pip install x",)}, ["full"]),
        ({"mounts": ("/data",)}, ["full"]),
        ({"gpus": 1, "cpus": 0, "image": "torch"}, ["bare"]),
        ({"gpus": 1, "cpus": 0}, ["full"]),
    ],
)
def test_a_job_goes_where_it_can_run(wants: dict[str, Any], where: list[str]) -> None:
    """By process, in a container without a default image, and in one with."""
    bare = replace(node("bare", gpus=1), executor="docker")
    full = replace(node("full", gpus=1), executor="docker", default_image="python")
    w = World(node("plain"), bare, full)
    w.submit(job(1, **wants))
    assert w.where(1) == where


def test_a_job_that_needs_a_container_waits_if_there_is_none() -> None:
    w = World(node("plain"))
    assert w.submit(job(1, image="torch")) == []
    w.cycle(ev.NodeSeen(w.now, docker("a", default_image="")))
    assert w.where(1) == ["a"]


# --- labels


def test_labels_stay_when_the_node_is_seen_again_and_name_the_type_of_gpus() -> None:
    found = docker("a", devices=(Device(DeviceId("G"), model="NVIDIA A100-SXM4"),))
    found = replace(found, capacity=replace_gpus(found, 1))
    w = World(found)
    w.submit(job(1, gpus=1, gpu_type="A100"))
    assert w.running() == []
    w.cycle(ev.LabelsAsked(w.now, A, "ann", (("gpu-type", "A100"), ("room", "b12"))))
    assert w.running() == [1]
    w.cycle(ev.NodeSeen(w.now, found))
    ledger = w.state.ledger.node(A)
    assert ledger
    assert dict(ledger.node.labels) == {"gpu-type": "A100", "room": "b12"}
    assert [d.model for d in ledger.node.devices] == ["A100"]
    assert ledger.free["gpus"] == 0, "what is promised stays promised"


def replace_gpus(found: Node, count: int) -> Any:
    from schedulearn.core.domain.resources import Resources

    return Resources({**found.capacity, "gpus": count})


# --- removing


def test_an_idle_node_is_removed_at_once() -> None:
    w = World(node("a"), node("b"))
    w.cycle(ev.RemoveNodeAsked(w.now, A, "ann", False))
    assert w.state.ledger.node(A) is None
    assert w.changes.nodes_removed == [A]
    assert A not in w.changes.nodes
    assert w.commands == [cmd.ForgetNode(A)]
    w.submit(job(1))
    assert w.where(1) == ["b"]


def test_a_node_that_is_seen_in_the_cycle_of_its_removal_stays_removed() -> None:
    w = World(node("a"))
    w.cycle(ev.RemoveNodeAsked(w.now, A, "ann", False), ev.NodeSeen(w.now, node("a", cpus=3)))
    assert w.state.ledger.node(A) is None


def test_a_busy_node_is_not_removed_unless_forced() -> None:
    w = World(node("a", cpus=1))
    w.submit(job(1))
    w.started(1)
    w.cycle(ev.RemoveNodeAsked(w.now, A, "ann", False))
    assert state_of(w) is NodeState.UP
    assert kinds(w)[-1] == "not_removed"


def test_a_forced_removal_stops_what_runs_there_and_waits_for_its_end() -> None:
    w = World(node("a", cpus=2), node("b", cpus=1))
    w.submit(job(1), job(2))
    for number in (1, 2):
        w.started(number)
    w.cycle(ev.RemoveNodeAsked(w.now, A, "ann", True))
    assert state_of(w) is NodeState.REMOVING
    assert {type(command) for command in w.commands} == {cmd.StopWorker}
    assert w.submit(job(3, priority=90)) == [3]
    assert w.where(3) == ["b"]
    w.exited(1, KILLED)
    assert state_of(w) is NodeState.REMOVING
    w.cycle(ev.NodeSeen(w.now, node("a", cpus=2)))
    assert state_of(w) is NodeState.REMOVING, "it answers, and still it goes"
    w.exited(2, KILLED)
    assert w.state.ledger.node(A) is None
    assert w.job(1).state is w.job(2).state is JobState.QUEUED
    assert w.job(1).restarts == 0


def test_a_lost_node_is_removed_by_force_without_waiting_for_it() -> None:
    w = World(node("a", cpus=1), node("b", cpus=1))
    w.submit(job(1))
    w.started(1)
    w.cycle(ev.NodeLost(w.now, A, WHY))
    w.cycle(ev.RemoveNodeAsked(w.now, A, "ann", True))
    assert w.state.ledger.node(A) is None
    assert w.where(1) == ["b"]


def test_a_removal_goes_on_when_the_node_is_lost_meanwhile() -> None:
    w = World(node("a", cpus=1))
    w.submit(job(1))
    w.started(1)
    w.cycle(ev.RemoveNodeAsked(w.now, A, "ann", True))
    w.cycle(ev.NodeLost(w.now, A, WHY))
    assert state_of(w) is NodeState.REMOVING
    w.cycle(ev.NodeGone(w.now, A, "gone"))
    assert w.state.ledger.node(A) is None


def test_whoever_was_promised_a_place_on_a_node_that_goes_waits_again() -> None:
    w = World(node("a", cpus=1), policy="srtf")
    w.submit(job(1, preemptible="true"))
    w.started(1)
    w.cycle(ev.RemoveNodeAsked(w.now, A, "ann", True))
    w.settle()
    assert w.state.ledger.node(A) is None
    w.cycle(ev.NodeSeen(w.now, node("c", cpus=1)))
    assert w.where(1) == ["c"]


def test_nodes_that_leave_do_not_mix_up_those_that_stay() -> None:
    w = World(node("a", gpus=1), node("b", gpus=2), node("c", gpus=4))
    w.submit(job(1, gpus=3, cpus=0))
    w.cycle(ev.RemoveNodeAsked(w.now, A, "ann", False))
    assert [(n.name, n.free_gpus) for n in w.state.ledger] == [("b", 2), ("c", 1)]
    w.submit(job(2, gpus=2, cpus=0), job(3, gpus=1, cpus=0), job(4, gpus=1, cpus=0))
    assert (w.where(2), w.where(3)) == (["b"], ["c"])
    assert 4 not in w.running()


def test_a_lost_node_could_hold_nobody_until_it_is_back() -> None:
    w = World(node("a", cpus=2))
    w.submit(job(1))
    w.started(1)
    shape = w.job(1).shape
    answers = []
    for event in (None, ev.NodeLost(w.now, A, WHY), ev.NodeSeen(w.now, node("a", cpus=2))):
        w.cycle(*([event] if event else []))
        ledger = w.state.ledger.node(A)
        assert ledger
        answers.append(ledger.could_hold(shape))
    assert answers == [True, False, True]
