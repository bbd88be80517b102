"""Jobs that share a machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.policies.presets import build_policy
from schedulearn.sim.cluster import nodes_from_list
from schedulearn.sim.engine import SimOptions, Simulation
from schedulearn.sim.sharing import SharedCpu, max_min
from schedulearn.traces.types import TraceJob, Workload


@pytest.mark.parametrize(
    ("capacity", "wants", "shares"),
    [
        (4, [], []),
        (4, [1, 2], [1, 2]),
        (4, [4, 4], [2, 2]),
        (4, [1, 4, 4], [1, 1.5, 1.5]),
        (1, [0.2, 1, 1], [0.2, 0.4, 0.4]),
    ],
)
def test_max_min(capacity: float, wants: list[float], shares: list[float]) -> None:
    assert max_min(capacity, wants) == pytest.approx(shares)


@given(st.floats(0.1, 64), st.lists(st.floats(0, 16), max_size=20))
def test_max_min_gives_out_all_it_can_and_nobody_more_than_it_wants(capacity: float, wants: list[float]) -> None:
    shares = max_min(capacity, wants)
    assert sum(shares) == pytest.approx(min(capacity, sum(wants)))
    assert all(share <= want + 1e-9 for share, want in zip(shares, wants, strict=True))
    unmet = [share for share, want in zip(shares, wants, strict=True) if share < want - 1e-9]
    assert all(share == pytest.approx(max(shares)) for share in unmet)


def ends(*jobs: tuple[float, float], caps: dict[int, float] | None = None) -> list[float]:
    """Jobs (arrival, machine-seconds of work) that each keep the whole machine busy when alone."""
    nodes = nodes_from_list([{"gpus": 8, "cpus": 2}])
    traces = [TraceJob(str(i), at, work, 1, cpus=2.0) for i, (at, work) in enumerate(jobs)]
    sharing = SharedCpu(lambda job: (caps or {}).get(job, 1e9))
    simulation = Simulation(Workload("t", traces), nodes, build_policy("fifo"), SimOptions(), sharing=sharing)
    return [job.ended for job in sorted(simulation.run().jobs, key=lambda job: job.serial)]


def test_two_jobs_together_take_twice_as_long_while_both_run() -> None:
    assert ends((0, 10), (0, 10)) == pytest.approx([20, 20])
    assert ends((0, 10), (5, 10)) == pytest.approx([15, 20])


def test_the_published_three_job_run_without_limits() -> None:
    """FlowCon's calibration: VAE, MNIST-PyTorch at 40 s, MNIST-TensorFlow at 80 s, on one machine."""
    vae, torch, tensorflow = ends((0, 259.6), (40, 106.1), (80, 28.2))
    assert tensorflow == pytest.approx(164.7, abs=0.5)
    assert vae == pytest.approx(394, abs=0.5)
    assert torch - 40 == pytest.approx(240.5, abs=0.5)


def test_a_cap_slows_one_and_speeds_up_the_other() -> None:
    slow, fast = ends((0, 10), (0, 10), caps={1: 0.5})
    assert fast == pytest.approx(10 / 0.75)
    assert slow > 20
