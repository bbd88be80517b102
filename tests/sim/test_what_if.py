"""What would happen to the jobs there are: what is predicted in the middle of a simulation is what then happens."""

import json
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.control.present import Outlook, Present
from schedulearn.core.control.state import State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job, Lease
from schedulearn.core.domain.spec import Launcher, Preemptible
from schedulearn.core.domain.speedup import assumed_speedup
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.core.policies.order.fifo import Fifo
from schedulearn.core.policies.stages import Facts, Key, Known, Policy
from schedulearn.lab.sim import what_if
from schedulearn.lab.sim.ahead import Ahead
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.traces.registry import load
from schedulearn.lab.traces.types import Workload
from support.builders import World, job, node

RESTART = 30.0
UNKNOWN = Known(False, False, False, False)


def present_of(sim: Simulation, now: float) -> Present:
    """As the service would make it, of one that knows all durations."""
    outlook = {
        number: Outlook(
            sim.facts.estimate(job, now),  # type: ignore[arg-type]
            sim.facts.speedup(job),
            sim.facts.restart_cost(job),
            0.0,
            sim.facts.known(job, now),
        )
        for number, job in sim.state.jobs.items()
    }
    state = sim.state
    parts = (list(state.jobs.values()), list(state.attempts.values()), leases_of(state))
    setting = {"preset": sim.policy.preset}
    found = Present(now, setting, *parts, [n.node for n in state.ledger], dict(state.memory), outlook)
    return pickle.loads(pickle.dumps(found))  # type: ignore[no-any-return] # nothing is shared with what runs on


def leases_of(state: State) -> list[Lease]:
    return [worker.lease for attempt in state.attempts.values() for worker in attempt.workers if worker.lease]


def half_way(workload: Workload, preset: str, cluster: str) -> tuple[Simulation, float]:
    """Just after the last job has come, and at least some have ended."""
    sim = Simulation(workload, parse_cluster(cluster), build_policy(preset), SimOptions(restart_cost=RESTART))
    last = max(job.arrival for job in workload.jobs)
    now = 0.0
    while (at := sim._next_time()) <= last:
        now = at
        sim.step(now)
    return sim, now


def predicted(present: Present, preset: str) -> Mapping[JobId, float]:
    left = {number: known.left.expected for number, known in present.outlook.items() if known.left}
    return Ahead(present, build_policy(preset), left).ends()


def crowded(jobs: int = 60) -> Workload:
    return load(f"synthetic:philly?jobs={jobs}&load=4&elastic=true&seed=3", gpus=16)


# Whole cores are given to jobs without GPUs alone; two jobs on one device there are in simulations alone.
LIVE = [name for name in PRESETS if not name.startswith("cores") and not build_policy(name).order.packs]


@pytest.mark.parametrize("preset", LIVE)
def test_what_is_predicted_under_the_present_policy_is_what_then_happens(preset: str) -> None:
    sim, now = half_way(crowded(), preset, "4x4")
    present = present_of(sim, now)
    assert len(present.jobs) > 15
    assert len(present.attempts) > 3
    told = predicted(present, preset)
    ended = {job.serial: job.ended - now for job in sim.run().jobs}
    assert {number: round(at, 3) for number, at in told.items()} == {number: round(ended[number], 3) for number in told}
    assert len(told) == len(present.jobs)


@pytest.mark.parametrize("preset", ["fifo", "srtf", "cores-strict", "cores-proportional"])
def test_jobs_without_gpus_share_their_machines_in_it_too(preset: str) -> None:
    """Each keeps all cores of its machine busy, as is assumed of it."""
    workload = load("synthetic:philly?jobs=40&load=2&cpus=4&seed=3", gpus=8)
    sim, now = half_way(replace(workload, jobs=[replace(one, cpus=4.0) for one in workload.jobs]), preset, "2x4c")
    present = present_of(sim, now)
    assert len(present.attempts) > 1
    told = predicted(present, preset)
    ended = {job.serial: job.ended - now for job in sim.run().jobs}
    assert told == pytest.approx({number: ended[number] for number in told}, abs=1e-3)
    assert len(told) == len(present.jobs)


def test_another_policy_is_told_as_it_would_be_from_here_on() -> None:
    """Under `srtf` short jobs that wait behind long ones end sooner than under `fifo`, which is in force."""
    sim, now = half_way(crowded(), "fifo", "4x4")
    present = present_of(sim, now)
    found = {name: what_if.finishes(present, policy) for name, policy in policies(present, "srtf").items()}
    told = what_if.prediction(present, found)
    assert told["policies"] == ["fifo", "srtf"]
    averages = {name: end["expected"] for name, end in told["average"].items() if end}
    assert averages["srtf"] < averages["fifo"]
    ends = [job["finishes"]["fifo"]["expected"] for job in told["jobs"] if job["finishes"]["fifo"]]
    assert ends == sorted(ends)
    assert averages["fifo"] == pytest.approx(sum(ends) / len(ends))


def policies(present: Present, *names: str) -> Mapping[str, Policy]:
    return what_if.policies_of(present, names)


# --- what is known, and what is not


def waiting(*jobs: Job, gpus: int = 1, **known: Estimate | None) -> Present:
    """Jobs that wait for one machine, with what is known of each by its name."""
    outlook = {
        one.id: Outlook(known.get(one.spec.name), assumed_speedup(one.shape.workers.max), 0.0, 0.0, UNKNOWN)
        for one in jobs
    }
    return Present(0.0, {"preset": "fifo"}, jobs, (), (), [node("a", gpus=gpus)], {}, outlook)


def wants(number: int, name: str, **more: Any) -> Job:
    return job(number, gpus=1, name=name, **more)


def finish(present: Present) -> dict[int, tuple[float, ...] | None]:
    [(_, policy)] = policies(present).items()
    return {
        number: (end["low"], end["expected"], end["high"]) for number, end in what_if.finishes(present, policy).items()
    }


def test_a_range_of_estimates_is_a_range_of_ends() -> None:
    present = waiting(wants(1, "a"), wants(2, "b"), a=Estimate(5, 10, 40), b=Estimate(1, 2, 3))
    assert finish(present) == {1: (5, 10, 40), 2: (6, 12, 43)}


def test_without_a_range_there_is_none() -> None:
    assert finish(waiting(wants(1, "a"), a=Estimate(10, 10, 10))) == {1: (10, 10, 10)}


def test_a_job_that_nothing_is_known_of_takes_the_median_and_is_told_so() -> None:
    known = {"a": Estimate(10, 10, 10), "b": Estimate(20, 20, 20), "c": Estimate(90, 90, 90)}
    jobs = [wants(n, name) for n, name in enumerate("abcd", 1)]
    present = waiting(*jobs, **known)
    assert finish(present)[4] == (140, 140, 140)
    told = what_if.prediction(present, {"fifo": what_if.finishes(present, policies(present)["fifo"])})
    assert [(job["job"], job["source"]) for job in told["jobs"]] == [(1, ""), (2, ""), (3, ""), (4, None)]
    assert (told["unknown"], told["assumed_seconds"]) == (1, 20)


@pytest.mark.parametrize("preset", ["srjf", "srtf"])
def test_policies_are_told_nothing_of_it(preset: str) -> None:
    """It goes last: that it will be short is assumed by us, not known."""
    jobs = [wants(1, "unknown"), wants(2, "a"), wants(3, "b")]
    present = waiting(*jobs, a=Estimate(30, 30, 30), b=Estimate(50, 50, 50))
    ends = what_if.finishes(present, policies(present, preset)[preset])
    assert [ends[JobId(n)]["expected"] for n in (2, 3, 1)] == [30, 80, 120]


def test_where_nothing_is_known_an_hour_is_assumed_but_no_more_than_the_time_limit() -> None:
    assert finish(waiting(wants(1, "a"), wants(2, "b", time_limit=60))) == {1: (3600,) * 3, 2: (3660,) * 3}


def test_a_job_that_never_fits_and_those_behind_it_are_not_foreseeable() -> None:
    known = {"a": Estimate(10, 10, 10), "b": Estimate(10, 10, 10)}
    present = waiting(job(1, gpus=4, name="a"), wants(2, "b"), **known)
    assert finish(present) == {2: (10, 10, 10)}
    told = what_if.prediction(present, {"fifo": what_if.finishes(present, policies(present)["fifo"])})
    assert told["jobs"][1]["finishes"] == {"fifo": None}
    assert told["averaged"] == 1


# --- where each job is


def live(w: World, left: float = 100.0, **more: Any) -> Present:
    """A moment of a control loop as it runs live, with devices, and nothing known but what is left."""
    state = w.state
    known = Outlook(Estimate(left, left, left), assumed_speedup(4), 30.0, 0.1, UNKNOWN)
    parts = (list(state.jobs.values()), list(state.attempts.values()), leases_of(state))
    outlook = dict.fromkeys(state.jobs, known)
    setting = {"preset": w.policy.preset}
    return Present(w.now, setting, *parts, [n.node for n in state.ledger], dict(state.memory), outlook)


def world(policy: str = "fifo", gpus: int = 2) -> World:
    return World(node("a", gpus=gpus), policy=policy)


def run(w: World, *jobs: Job) -> World:
    w.submit(*jobs)
    for number in list(w.state.attempts):
        w.started(number)
    w.cycle()
    return w


def test_a_running_job_keeps_its_device_and_others_wait_for_it() -> None:
    w = run(world(), wants(1, "a"), wants(2, "b"), job(3, gpus=2))
    assert finish(live(w)) == {1: (100,) * 3, 2: (100,) * 3, 3: (200,) * 3}


@pytest.mark.parametrize("preset", ["fifo", "specon", "schedulearn", "voda"])
def test_a_job_that_its_user_holds_keeps_what_it_has_and_has_no_end(preset: str) -> None:
    """Nor has one that waits for it, however often a policy looks."""
    w = run(world(preset, gpus=1), wants(1, "a"), wants(2, "b"))
    w.cycle(ev.PauseAsked(w.now, JobId(1), "ann"))
    w.cycle(ev.WorkerPaused(w.now, w.state.attempts[JobId(1)].workers[0].id))
    assert w.job(1).state is JobState.PAUSED
    assert finish(live(w)) == {}


def test_a_job_that_is_being_cancelled_is_gone_and_one_that_was_preempted_comes_back() -> None:
    w = run(world(gpus=1), wants(1, "a"), wants(2, "b"))
    w.cycle(ev.CancelAsked(w.now, JobId(1), "ann"))
    assert w.job(1).state is JobState.STOPPING
    assert finish(live(w)) == {2: (100,) * 3}
    w = run(world("srtf", gpus=1), wants(1, "a", preemptible=Preemptible.YES, priority=10))
    w.submit(wants(2, "b", priority=90))
    assert w.job(1).state is JobState.STOPPING
    assert finish(live(w)) == {2: (100,) * 3, 1: (230,) * 3}, "with its restart"


def test_a_suspended_job_goes_on_where_it_is() -> None:
    """Its turn and the other's last a minute each."""
    w = run(world("gandiva", gpus=1), wants(1, "a", memory=10**9))
    w.submit(wants(2, "b", memory=10**9))
    w.now = 60.0
    w.cycle()
    w.cycle(ev.WorkerPaused(w.now, w.state.attempts[JobId(1)].workers[0].id))
    w.started(2)
    assert (w.job(1).state, w.job(2).state) == (JobState.QUEUED, JobState.RUNNING)
    assert finish(live(w)) == {2: (160,) * 3, 1: (200,) * 3}


@pytest.mark.parametrize("launcher", [Launcher.ELASTIC, Launcher.HOROVOD])
def test_a_job_whose_workers_come_and_go(launcher: Launcher) -> None:
    w = World(node("a", cpus=4), policy="elastic-fifo")
    run(w, job(1, workers=(1, 2, 4), launcher=launcher, preemptible=Preemptible.YES))
    assert list(finish(live(w))) == [1]


# --- the process that does it


def test_the_report_says_which_policy_failed_and_tells_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(Fifo):
        def key(self, job: Job, now: float, facts: Facts) -> Key:
            raise RuntimeError("oops")

    broken = replace(build_policy("srtf"), order=Broken())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(what_if, "build_policy", lambda name, *more: broken if name == "srtf" else build_policy(name))
    file = tmp_path / "present.pickle"
    file.write_bytes(pickle.dumps(waiting(wants(1, "a"), wants(2, "b"), a=Estimate(1, 2, 3), b=Estimate(4, 5, 6))))
    assert what_if.main([str(file), "srtf", "srjf"]) == 0
    assert capsys.readouterr().err == "error: the policy srtf failed: RuntimeError: oops\n"
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["prediction"]["policies"] == ["fifo", "srjf"]
    assert [row[0] for row in report["rows"]] == ["fifo", "srjf"]
    assert not file.exists(), "it is of no use any more"
