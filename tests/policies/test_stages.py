"""Each stage against tables worked out by hand."""

import math

import pytest

from schedulearn.core.domain import events as ev
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.policies.catalogue.presets import PRESETS, available, build_policy
from schedulearn.core.policies.order.srjf_aged import SrjfAged
from support.builders import World, job, node
from support.facts import AssumedFacts


def nodes(*gpus: int) -> list:  # type: ignore[type-arg]
    return [node("abcdefgh"[i], gpus=n) for i, n in enumerate(gpus)]


def test_fifo_with_backfilling_passes_what_does_not_fit() -> None:
    w = World(*nodes(4))
    assert w.submit(job(1, gpus=3), job(2, gpus=2), job(3, gpus=1)) == [1, 3]


def test_strict_stops_at_the_first_that_does_not_fit() -> None:
    w = World(*nodes(4), stages={"allocate": "strict"})
    assert w.submit(job(1, gpus=3), job(2, gpus=2), job(3, gpus=1)) == [1]
    assert w.exited(1) == [2, 3]


def test_equal_shapes_go_in_the_order_of_submission() -> None:
    w = World(*nodes(2))
    assert w.submit(*(job(i, gpus=1) for i in (3, 1, 2))) == [1, 2]


def test_priority_goes_before_the_order_and_may_change_later() -> None:
    w = World(*nodes(1))
    assert w.submit(job(1, gpus=1, priority=10), job(2, gpus=1, priority=90), job(3, gpus=1, priority=20)) == [2]
    w.cycle(ev.UpdateAsked(w.now, JobId(1), "ann", {"priority": 60}))
    assert w.exited(2) == [1]


def test_priority_does_not_pre_empt_under_fifo() -> None:
    w = World(*nodes(1))
    w.submit(job(1, gpus=1))
    assert w.submit(job(2, gpus=1, priority=100)) == []
    assert w.running() == [1]


def test_cpu_jobs_are_not_blocked_behind_gpu_jobs() -> None:
    w = World(*nodes(1))
    w.submit(job(1, gpus=1))
    assert w.submit(job(2, gpus=1), job(3)) == [3]


def test_cores_are_kept_for_free_gpus() -> None:
    w = World(node("a", cpus=4, gpus=2, cpus_per_gpu=1.0))
    assert w.submit(job(1, cpus=3)) == [], "two cores are kept for two free GPUs"
    assert w.submit(job(2, cpus=2)) == [2]
    assert w.submit(job(3, gpus=1), job(4, gpus=1)) == [3, 4]


def test_gpu_type_is_honoured() -> None:
    w = World(node("a", gpus=2, models=["T4", "A100"]))
    assert w.submit(job(1, gpus=1, gpu_type="A100"), job(2, gpus=1, gpu_type="A100")) == [1]
    assert w.state.attempts[JobId(1)].workers[0].devices == ("a-gpu1",)


def test_a_device_in_outside_use_is_not_given_out() -> None:
    from dataclasses import replace

    taken = node("a", gpus=2)
    taken = replace(taken, devices=(replace(taken.devices[0], outside_use="pid 7 of bob"), taken.devices[1]))
    w = World(taken)
    assert w.submit(job(1, gpus=1), job(2, gpus=1)) == [1]
    assert w.state.attempts[JobId(1)].workers[0].devices == ("a-gpu1",)


def test_memory_is_leased_exclusively() -> None:
    w = World(node("a", memory=10e9))
    assert w.submit(job(1, memory=6_000_000_000), job(2, memory=6_000_000_000), job(3, memory=4_000_000_000)) == [1, 3]


def test_fractions_of_a_core_add_up() -> None:
    w = World(node("a", cpus=1))
    assert w.submit(*(job(i, cpus=0.1) for i in range(1, 12))) == list(range(1, 11))


@pytest.mark.parametrize(
    ("workers", "expected"),
    [(4, ["a"] * 4), (5, ["b"] * 5), (9, ["b"] * 8 + ["a"]), (12, ["b"] * 8 + ["a"] * 4)],
)
def test_pack_takes_the_first_node_with_room_else_as_few_as_possible(workers: int, expected: list[str]) -> None:
    w = World(*nodes(4, 8))
    w.submit(job(1, gpus=1, cpus=0.1, workers=workers))
    assert w.where(1) == expected


def test_six_workers_over_two_nodes_of_four_are_charged_six() -> None:
    w = World(*nodes(4, 4))
    w.submit(job(1, gpus=1, workers=6))
    assert sum(n.free["gpus"] for n in w.state.ledger) == 2


def test_round_robin_rotates_one_job_each_and_remembers_over_decisions() -> None:
    w = World(*nodes(4, 4, 4), policy="round-robin")
    for number in (1, 2, 3, 4):
        w.submit(job(number, gpus=1))
    assert [w.where(n) for n in (1, 2, 3, 4)] == [["a"], ["b"], ["c"], ["a"]]
    assert w.memory["round_robin.last"] == "a"


def test_round_robin_passes_a_full_node() -> None:
    w = World(*nodes(1, 1, 1), policy="round-robin")
    w.submit(job(1, gpus=1), job(2, gpus=1))
    w.exited(1)
    w.submit(job(3, gpus=1), job(4, gpus=1))
    assert (w.where(3), w.where(4)) == (["c"], ["a"])


def test_the_starvation_guard_reserves_nodes_for_a_job_that_waited_too_long() -> None:
    w = World(*nodes(4), params={"starvation_guard": "1h"})
    w.submit(job(1, gpus=3))
    decision = w.cycle(ev.Submitted(0.0, job(2, gpus=4)))
    assert decision.wake_at == 3600.0
    assert w.submit(job(3, gpus=1)) == [3], "before the limit small jobs may pass"
    w.now = 3600.0
    assert w.exited(3) == []
    assert w.submit(job(4, gpus=1)) == [], "after it they may not"
    assert w.exited(1) == [2]


def test_the_guard_leaves_other_nodes_alone() -> None:
    w = World(*nodes(4, 2), params={"starvation_guard": 10})
    w.submit(job(1, gpus=3), job(2, gpus=4))
    w.now = 11.0
    assert w.submit(job(3, gpus=1), job(4, gpus=2)) == [3]
    assert w.where(3) == ["b"]


def test_under_an_order_that_pre_empts_the_guard_holds_back_only_what_could_not_be_interrupted() -> None:
    def gpu(number: int, priority: int, gpus: int = 1, stays: bool = True) -> Job:
        return job(number, gpus=gpus, priority=priority, preemptible=Preemptible.NO if stays else Preemptible.YES)

    w = World(*nodes(2), policy="edf", params={"starvation_guard": 10})
    w.submit(gpu(1, 50), gpu(2, 50))
    w.submit(gpu(3, 40, gpus=2), gpu(4, 30), gpu(5, 20, stays=False))
    w.now = 5.0
    assert w.exited(1) == [4], "before the limit small jobs may pass"
    w.now = 11.0
    assert w.submit(gpu(6, 60)) == [], "it goes before job 3, but there is nothing free"
    assert w.exited(2) == [6]
    assert w.exited(4) == [5], "it can be interrupted"
    assert w.submit(gpu(7, 35)) == [], "job 3 would have to wait for it"
    w.exited(6)
    w.settle()
    assert w.running() == [3], "job 5 was interrupted for it"


def test_the_guard_can_be_off() -> None:
    w = World(*nodes(4), params={"starvation_guard": "off"})
    w.submit(job(1, gpus=3), job(2, gpus=4))
    w.now = 1e9
    assert w.submit(job(3, gpus=1)) == [3]


@pytest.mark.parametrize(
    ("preset", "stages", "params", "field", "allowed"),
    [
        ("fifa", None, None, "preset", "fifo"),
        ("fifo", {"order": "luck"}, None, "stages.order", "fifo"),
        ("fifo", {"colour": "red"}, None, "stages", "order"),
        ("fifo", None, {"speed": 3}, "params.speed", "starvation_guard"),
        ("fifo", None, {"starvation_guard": "soon"}, "params.starvation_guard", "30s"),
    ],
)
def test_an_unknown_policy_is_named_with_what_there_is(preset, stages, params, field, allowed) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidSpec) as caught:
        build_policy(preset, stages, params)
    assert caught.value.field == field
    assert allowed in caught.value.allowed


def test_a_parameter_of_a_stage_that_was_overridden_has_nothing_to_do() -> None:
    policy = build_policy("fifo", {"allocate": "strict"}, {"starvation_guard": "off"})
    assert policy.stages["allocate"] == "strict"


def test_the_nearest_preset_is_suggested() -> None:
    with pytest.raises(InvalidSpec, match="did you mean 'round-robin'"):
        build_policy("roundrobin")


def test_every_preset_can_be_built_and_is_described() -> None:
    for name in PRESETS:
        assert build_policy(name).preset == name
        assert available()["presets"][name].endswith(".")


# --- shortest first, with an end


class Lasts(AssumedFacts):
    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds

    def duration(self, job: Job) -> float:
        return self.seconds.get(f"job{job.id}", math.inf)


@pytest.mark.parametrize(
    ("submitted", "passes"),
    [(0, True), (5_899, True), (5_901, False), (1_000_000, False)],  # ten times 600 s - 10 s
)
def test_a_shorter_job_passes_nobody_who_has_waited_long(submitted: float, passes: bool) -> None:
    facts, order = Lasts(job1=600.0, job2=10.0), SrjfAged()
    long, short = job(1, at=0.0), job(2, at=submitted)
    assert (order.key(short, submitted, facts) < order.key(long, submitted, facts)) is passes


def test_where_nothing_is_known_the_first_goes_first_and_none_is_left_out() -> None:
    facts, order = Lasts(job3=10.0), SrjfAged()
    one, two, late = (job(i, at=at) for i, at in ((1, 0.0), (2, 1.0), (3, 36_000.0)))
    assert order.key(one, 0, facts) < order.key(two, 0, facts) < order.key(late, 0, facts)


def test_every_preset_says_in_a_second_sentence_when_to_take_it() -> None:
    details = available()["details"]
    assert details.keys() == PRESETS.keys()
    for name, detail in details.items():
        assert detail["more"].endswith("."), name
        assert detail["stages"] == build_policy(name).stages


def test_every_parameter_is_shown_with_what_it_is_unless_given() -> None:
    for stages in available()["stages"].values():
        for info in stages.values():
            assert sorted(info["defaults"]) == info["params"]
    assert available()["stages"]["share"]["flowcon"]["defaults"]["alpha"] == "0.05"
    assert available()["stages"]["order"]["las"]["defaults"]["thresholds"] == "3600"
