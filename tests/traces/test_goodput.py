"""What is true of jobs of a pollux workload that leave their batch size to the scheduler."""

import pytest

from schedulearn.core.domain.spec import Batches
from schedulearn.lab.traces.profiles import Profile, Profiles
from schedulearn.lab.traces.registry import load
from support.traces import TRACES, needs_traces

HEADER = "name,time,application,num_replicas,batch_size\n"


def test_by_hand(write, profile):
    """Noise as large as the gradient: a batch of 32 brings 2 / (1/2 + 1) = 4/3 of what one of 16 brings."""
    profile()
    (job,) = load(write(HEADER + "j,5,tiny,2,16\n"), goodput=True, strict=True).jobs
    true = job.adaptive
    assert (job.batch, true.batches, job.workers) == (16, Batches(16, 32), (1, 8))
    assert (job.speedup, job.placed, job.announced) == (None, None, 1.0)
    # Of two workers: 16 in 2.5 s, 32 in two passes of 8, which take 4.5 s, and what is between takes two passes, too.
    assert true.best(0, (2,)) == 16
    assert job.duration == pytest.approx(20 * 2.5)  # its progress is told in steps of 16
    assert job.learning.points() == [(0.5, 0.5), (1.0, 0.8)]
    # Of eight: from 27 on each has 4, in 2.5 s.
    assert true.best(0, (4, 4)) == 32
    assert true.fitting(8, 16) == 27
    assert true.rate(0, (4, 4), 32) == pytest.approx(4 / 3 / 2.5 * 2.5)
    assert true.rate(0, (1, 1), 16) == pytest.approx(2.5 / 9.0), "as it was measured on two nodes"
    alone = max(1 / 4.0, 4 / 3 / 8.0)  # two passes of 8 take 4 s, four take 8
    assert true.speedup(0)(8) == pytest.approx(4 / 3 / 2.5 / alone)
    assert true.noise(0, 16) == 16.0


def test_without_the_option_nothing_changes(write, profile):
    profile()
    path = write(HEADER + "j,5,tiny,2,16\n")
    (job,) = load(path).jobs
    assert (job.adaptive, job.batch) == (None, 0)


@needs_traces
@pytest.mark.parametrize("model", ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"])
def test_of_the_measured_models(model: str) -> None:
    from schedulearn.lab.traces.adaptive import Adaptive

    known: Profile = Profiles(TRACES / "pollux" / "profiles").get(model)
    true = Adaptive(known, 1)
    assert true.most == 64
    assert true.ends[-1] == 1.0
    assert true.ends == sorted(true.ends)
    fixed = known.iterations(true.batches.min, by_progress=True) * known.step_time(1, true.batches.min)
    assert true.duration <= fixed * (1 + 1e-9), "a batch that may be chosen is never worse"
    for phase in (0, len(true.ends) // 2, len(true.ends) - 1):
        curve = true.speedup(phase)
        assert curve(1) == 1.0
        for nodes in ((1,), (4,), (1, 3), (4, 4)):
            best = true.rate(phase, nodes, true.best(phase, nodes))
            assert best >= true.rate(phase, nodes, true.fitting(sum(nodes), true.batches.min))
            assert true.rate(phase, (1,), true.best(phase, (1,))) == pytest.approx(1.0)
            if len(nodes) == 1:
                assert curve(sum(nodes)) == pytest.approx(best)
    first, last = (true.noise(phase, true.batches.min) for phase in (1, len(true.ends) - 1))
    assert model in ("bert", "ncf", "deepspeech2") or last > first, "gradients get noisier as a training goes on"
