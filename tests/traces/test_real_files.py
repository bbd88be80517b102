"""The public traces themselves, where they are at hand: beside the project, in `../shared/traces`."""

from itertools import pairwise

import pytest

from schedulearn.lab.traces.numbers import read_numbers
from schedulearn.lab.traces.registry import load
from support.traces import TRACES, needs_traces

pytestmark = [pytest.mark.slow, needs_traces]

POLLUX = [f"pollux/workload-{number}.csv" for number in (1, 2, 3, 4)]
COUNTS = {
    "philly/philly.csv": 82_247,
    "elasticflow/195job.csv": 195,
    "elasticflow/cluster01.csv": 1_595,
    "elasticflow/cluster02.csv": 5_778,
    "elasticflow/cluster06.csv": 2_396,
    "elasticflow/cluster10.csv": 260,
    "tiresias/60_job.csv": 60,
    **dict.fromkeys(POLLUX, 160),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_row_is_a_job(name):
    jobs = load(str(TRACES / name), strict=True).jobs
    assert len(jobs) == COUNTS[name]
    assert all(job.duration > 0 and job.gpus >= 1 for job in jobs)


def test_philly_keeps_the_order_of_its_file():
    jobs = load(str(TRACES / "philly/philly.csv")).jobs
    assert sum(a.arrival > b.arrival for a, b in pairwise(jobs)) == 44_878
    assert (jobs[0].arrival, jobs[0].duration, jobs[0].user) == (1507532515.0, 66.0, "11cb48")
    assert sum(job.gpus == 1 for job in jobs) == 76_627


def test_elasticflow_has_absolute_deadlines():
    jobs = load(str(TRACES / "elasticflow/cluster06.csv")).jobs
    assert all(job.deadline is not None and job.deadline > job.arrival for job in jobs)
    assert sum(a.arrival == b.arrival for a, b in pairwise(jobs)) == 464


@pytest.mark.parametrize("name", POLLUX)
def test_pollux_curves_are_sane(name):
    for job in load(str(TRACES / name)).jobs:
        assert job.speedup is not None
        assert job.speedup(1) == 1
        assert job.speedup.most >= job.gpus
        # The measured times give a little more than linear here and there (bert: s(2) = 2.09).
        assert all(0 < job.speedup(n) <= 1.1 * n for n in range(1, job.speedup.most + 1))
        (_, first), *_, (end, last) = job.learning.points()
        assert end == 1
        assert (job.learning.goal == "max") == (last > first)


@pytest.mark.parametrize("name", POLLUX)
def test_pollux_scales_within_a_node(name):
    """ncf aside, which gains nothing from a second GPU: its users ask for one."""
    for job in load(str(TRACES / name)).jobs:
        if job.name != "ncf":
            assert all(job.speedup(n + 1) > 1.1 * job.speedup(n) for n in (1, 2, 3))


def test_gputimes():
    times = read_numbers(TRACES / "tiresias/yarn-gput1000.csv")
    assert (len(times), times[0], times[-1]) == (1_001, 121.0, 53_294_624.0)
    assert list(times) == sorted(times)
