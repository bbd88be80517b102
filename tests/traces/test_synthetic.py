"""The generator: the same source gives the same jobs, and they look like a real cluster's."""

from collections import Counter, defaultdict
from math import log
from statistics import median, pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces.registry import load

DAY = 86_400
seeds = st.integers(0, 2**32)

KNOWN = [
    ("job-0", 974.794, 536.0, 1, "user01", "lstm-finetune", 2916.794, (1, 1)),
    ("job-1", 1405.066, 22350.0, 1, "user01", "lstm-pretrain", 57421.066, (1, 2)),
    ("job-2", 1662.026, 77136.0, 1, "user01", "bert-pretrain", 225983.026, (1, 2)),
]


def demand(jobs):
    return sum(job.duration * job.gpus for job in jobs)


def plain(job):
    """All but the curve, which has no equality."""
    return (job.label, job.arrival, job.duration, job.gpus, job.user, job.name, job.deadline, job.workers)


@given(seed=seeds, elastic=st.sampled_from(["true", "false"]), deadlines=st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_the_same_source_gives_the_same_jobs(seed, elastic, deadlines):
    source = f"synthetic:philly?jobs=50&seed={seed}&elastic={elastic}&deadlines={deadlines}"
    assert [plain(job) for job in load(source).jobs] == [plain(job) for job in load(source).jobs]


def test_a_known_seed_gives_known_jobs():
    """On every machine, in every version: what was published can be made again."""
    jobs = load("synthetic:philly?jobs=3&seed=1&deadlines=1&elastic=true").jobs
    assert [plain(job) for job in jobs] == KNOWN


def test_another_seed_gives_other_jobs():
    one, two = (load(f"synthetic:philly?jobs=50&seed={seed}").jobs for seed in (1, 2))
    assert [job.duration for job in one] != [job.duration for job in two]


@given(seed=seeds, share=st.floats(0.05, 3), gpus=st.sampled_from([1, 8, 64, 1000]), jobs=st.integers(300, 600))
@settings(max_examples=20, deadline=None)
def test_the_load_is_what_was_asked_for(seed, share, gpus, jobs):
    made = load(f"synthetic:philly?jobs={jobs}&seed={seed}&load={share}&gpus={gpus}").jobs
    span = made[-1].arrival - made[0].arrival
    assert len(made) == jobs
    assert demand(made) / (gpus * span) == pytest.approx(share, rel=0.1)


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_the_jobs_look_like_phillys(seed):
    jobs = load(f"synthetic:philly?jobs=4000&seed={seed}").jobs
    sizes = Counter(job.gpus for job in jobs)
    assert set(sizes) <= {1, 2, 4, 8, 16, 32}
    assert 0.9 < sizes[1] / 4000 < 0.96
    assert all(0.01 < sizes[size] / 4000 < 0.04 for size in (2, 4, 8))
    durations = sorted(job.duration for job in jobs)
    assert durations[0] >= 1
    assert 400 < durations[2000] < 4000
    assert sum(durations[-400:]) > 0.6 * sum(durations)  # heavy tail
    assert [job.arrival for job in jobs] == sorted(job.arrival for job in jobs)
    users = Counter(job.user for job in jobs).most_common()
    assert sum(number for _, number in users[:6]) > 0.4 * 4000  # few submit much
    assert len(users) > 20


def test_arrivals_have_a_daily_rhythm():
    jobs = load("synthetic:philly?jobs=20000&gpus=64").jobs
    days = int(jobs[-1].arrival / DAY) * DAY  # whole days alone
    morning = sum(job.arrival % DAY < DAY / 2 for job in jobs if job.arrival < days)
    evening = sum(job.arrival % DAY >= DAY / 2 for job in jobs if job.arrival < days)
    assert 1.8 < morning / evening < 2.8


def test_jobs_of_one_user_and_name_last_about_equally_long():
    jobs = load("synthetic:philly?jobs=10000").jobs
    alike = defaultdict(list)
    for job in jobs:
        alike[job.user, job.name].append(log(job.duration))
    within = median(pstdev(group) for group in alike.values() if len(group) >= 10)
    assert within < 0.4 < 1.5 < pstdev(log(job.duration) for job in jobs)


def test_no_job_is_larger_than_the_cluster():
    assert {job.gpus for job in load("synthetic:philly?jobs=3000&gpus=4").jobs} == {1, 2, 4}
    assert all(job.workers[1] <= 4 for job in load("synthetic:philly?jobs=3000&gpus=4&elastic=true").jobs)


def test_deadlines():
    jobs = load("synthetic:philly?jobs=3000&deadlines=0.3").jobs
    with_one = [job for job in jobs if job.deadline is not None]
    assert 0.25 < len(with_one) / 3000 < 0.35
    assert all(job.deadline >= job.arrival + job.duration for job in with_one)
    assert all(job.deadline is None for job in load("synthetic:philly").jobs)


def test_elastic_ranges_hold_what_was_asked_for():
    jobs = load("synthetic:philly?jobs=2000&elastic=true").jobs
    assert all(1 <= job.workers[0] <= job.gpus <= job.workers[1] <= 64 for job in jobs)
    assert any(job.workers[0] < job.gpus < job.workers[1] for job in jobs)
    assert all(job.speedup(1) == 1 and job.speedup.most == job.workers[1] for job in jobs)
    assert all(job.workers is None and job.speedup is None for job in load("synthetic:philly").jobs)


def test_options_do_not_change_the_rest():
    bare = load("synthetic:philly?jobs=200").jobs
    full = load("synthetic:philly?jobs=200&elastic=true&deadlines=0.5").jobs
    assert [plain(job)[:6] for job in bare] == [plain(job)[:6] for job in full]


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_learning_curves_change_nothing_else_and_fall(seed):
    source = f"synthetic:philly?jobs=200&seed={seed}&deadlines=0.5"
    jobs = load(source + "&curves=true").jobs
    assert [plain(job) for job in jobs] == [plain(job) for job in load(source).jobs]
    again = load(source + "&curves=true").jobs
    alike = defaultdict(set)
    for job, same in zip(jobs, again, strict=True):
        values = [value for _, value in job.learning.points()]
        assert job.learning.points() == same.learning.points()
        assert values == sorted(values, reverse=True)
        assert 0 < values[-1] < values[0] < 10
        alike[job.user, job.name].add(tuple(values))
    assert {len(curves) for curves in alike.values()} == {1}, "a user's jobs of one name learn alike"
    assert len({curves.pop() for curves in alike.values()}) == len(alike)


def test_jobs_that_share_machines_differ_in_nothing_else():
    source = "synthetic:philly?jobs=80&gpus=8&load=2"
    plain_jobs, shared = load(source).jobs, load(source + "&cpus=0.5").jobs
    assert {(job.gpus, job.cpus) for job in shared} == {(0, 0.5)}
    assert [(j.user, j.name, j.duration) for j in shared] == [(j.user, j.name, j.duration) for j in plain_jobs]
    work = sum(job.duration * job.cpus for job in shared)
    assert work / (8 * shared[-1].arrival) == pytest.approx(2, rel=0.2), "the load counts cores"


def test_without_the_parameter_there_are_no_curves():
    assert all(job.learning is None for job in load("synthetic:philly?jobs=20").jobs)


def test_the_cluster_and_the_number_of_jobs_hold_where_the_query_does_not_say():
    query = load("synthetic:philly?jobs=70&gpus=8").jobs
    assert [plain(job) for job in load("synthetic:philly", gpus=8, jobs=70).jobs] == [plain(job) for job in query]
    assert [plain(job) for job in load("synthetic:philly?jobs=70&gpus=8", gpus=512).jobs] == [plain(j) for j in query]
    assert [plain(job) for job in load("synthetic:philly?jobs=70&gpus=8", jobs=5).jobs] == [plain(j) for j in query[:5]]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("synthetic:", "trace: no synthetic workload '' .*synthetic:philly"),
        ("synthetic:phily", "trace: no synthetic workload 'phily' .*synthetic:philly"),
        ("synthetic:philly?job=5", "job: no such parameter .*jobs, load, gpus, seed, deadlines, elastic, curves"),
        ("synthetic:philly?jobs=5&jobs=6", "jobs: given twice"),
        ("synthetic:philly?jobs=0", "jobs: '0' is not allowed .*1 to 1000000"),
        ("synthetic:philly?jobs=1e9", "jobs: '1e9' is not allowed"),
        ("synthetic:philly?jobs", "jobs: '' is not allowed"),
        ("synthetic:philly?load=0", "load: '0' is not allowed .*above 0"),
        ("synthetic:philly?load=nan", "load: 'nan' is not allowed"),
        ("synthetic:philly?load=inf", "load: 'inf' is not allowed"),
        ("synthetic:philly?gpus=-1", "gpus: '-1' is not allowed"),
        ("synthetic:philly?seed=x", "seed: 'x' is not allowed"),
        ("synthetic:philly?deadlines=30", "deadlines: '30' is not allowed .*0 to 1"),
        ("synthetic:philly?elastic=maybe", "elastic: 'maybe' is not allowed .*true, false"),
        ("synthetic:philly?curves=2", "curves: '2' is not allowed .*true, false"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_allowed(source, error):
    with pytest.raises(InvalidSpec, match=error):
        load(source)
