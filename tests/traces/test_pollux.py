"""Durations, speed-ups and learning curves from measured profiles, computed by hand for the one in conftest.py."""

import pytest

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces.registry import load

HEADER = "name,time,application,num_replicas,batch_size\n"


def job_of(write, row):
    (job,) = load(write(HEADER + row + "\n"), strict=True).jobs
    return job


def test_a_job_has_its_measured_duration_and_curves(write, profile):
    profile()
    job = job_of(write, "tiny-0,107,tiny,2,16")
    assert (job.label, job.arrival, job.gpus, job.name) == ("tiny-0", 107.0, 2, "tiny")
    assert job.duration == 400 * 2.5  # a local batch of 8 on two replicas of one node
    assert (job.learning.goal, job.learning.points()) == ("max", [(0.25, 0.5), (1.0, 0.8)])
    assert job.workers == (1, 5)


@pytest.mark.parametrize(
    ("replicas", "batch", "step"),
    [
        (1, 16, 2 * 2.0),  # two passes of 8, nothing to exchange
        (1, 24, 3 * 2.0),
        (2, 32, 2.5 + 2.0),  # two passes, one exchange
        (2, 16, 2.5),
        (4, 24, 2.0),  # a local batch of 6 lies half-way between 4 and 8
        (3, 18, 2.0),  # 3 replicas lie half-way between 2 (2.0) and 4 (2.0)
        (5, 20, 1.75),  # between 4 (1.5) and 6, whose node of 4 comes first in its placement (2.0)
        (6, 24, 2.0),
        (6, 32, 2.5),  # ⌈32 / 6⌉ = 6
        (7, 28, 2.25),  # between 6 (2.0) and 8, which only scalability.csv has (2.5)
        (8, 32, 2.5),  # on 2 nodes, not the 9.0 of 8 nodes
    ],
)
def test_step_times(write, profile, replicas, batch, step):
    profile()
    job = job_of(write, f"j,0,tiny,{replicas},{batch}")
    iterations = 400 + (200 - 400) * (batch - 16) / 16  # between the two validated batch sizes
    assert job.duration == pytest.approx(iterations * step)


def test_the_speedup_is_relative_to_one_replica_at_the_same_total_batch(write, profile):
    profile()
    speedup = job_of(write, "j,0,tiny,1,32").speedup
    assert speedup.most == 8
    assert [speedup(n) for n in (1, 2, 4, 6, 8)] == pytest.approx([1, 8 / 4.5, 8 / 2.5, 8 / 2.5, 8 / 2.5])


def test_the_speedup_ends_where_the_local_batch_gets_smaller_than_was_measured(write, profile):
    profile()
    assert job_of(write, "j,0,tiny,1,16").speedup.most == 5  # ⌈16 / 5⌉ = 4; 6 would have 3


def test_where_one_was_never_measured_the_smallest_is_taken_for_linear(write, profile):
    profile()
    rows = ["4,4,1.5,0.5", "4,8,2.5,0.5", "42,4,2.0,1.0"]
    write("placement,local_bsz,step_time,sync_time\n" + "\n".join(rows), "profiles/tiny/placements.csv")
    job = job_of(write, "j,0,tiny,2,24")
    assert [job.speedup(n) for n in (1, 2, 3, 4, 6)] == pytest.approx([1, 2, 3, 4, 4 * 2.0 / 2.0])
    assert job.duration == pytest.approx(300 * 4.0)


def test_yolov3_holds_at_most_8_in_a_replica(write, profile):
    profile("yolov3")
    more = "placement,local_bsz,step_time,sync_time\n1,4,1.0,0.0\n1,8,2.0,0.0\n1,16,3.0,0.0\n"
    write(more, "profiles/yolov3/placements.csv")
    assert job_of(write, "j,0,yolov3,1,16").duration == 400 * 2 * 2.0


def test_a_metric_that_falls_is_to_fall(write, profile):
    profile()
    write("iteration,metric\n100,9.0\n200,3.0\n", "profiles/tiny/validation-16.csv")
    assert job_of(write, "j,0,tiny,1,16").learning.goal == "min"


def test_jobs_run_to_the_last_epoch_of_their_model(write, profile):
    profile("bert")
    write("iteration,metric\n100,1\n200,2\n300,3\n", "profiles/bert/validation-16.csv")
    write("iteration,metric\n100,1\n200,2\n300,3\n", "profiles/bert/validation-32.csv")
    job = job_of(write, "j,0,bert,2,16")
    assert job.duration == 200 * 2.5
    assert job.learning.points() == [(0.5, 1.0), (1.0, 2.0)]


def test_profiles_may_be_elsewhere(write, profile, tmp_path):
    profile()
    (tmp_path / "profiles").rename(tmp_path / "measured")
    path = write(HEADER + "j,0,tiny,1,16\n")
    with pytest.raises(InvalidSpec, match=r"profiles: .* there is no folder .*profiles"):
        load(path)
    assert len(load(path, profiles=tmp_path / "measured").jobs) == 1


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("j,0,gpt9,1,16", "no profile of gpt9: there is no "),
        ("j,0,,1,16", "application is no name of a model"),
        ("j,0,../tiny,1,16", "application is no name of a model"),
        ("j,0,..,1,16", "application is no name of a model"),
        ("j,0,tiny,9,32", "measured up to 8 replicas"),
        ("j,0,tiny,8,16", "measured up to 5 replicas"),
        ("j,0,tiny,1,64", "batch_size 64: tiny was measured from 16 to 32"),
        ("j,0,tiny,0,16", "num_replicas must be 1 to"),
        ("j,0,tiny,1,", "batch_size is missing"),
        ("j,soon,tiny,1,16", "time is not a number"),
    ],
)
def test_bad_rows(write, profile, row, text):
    profile()
    workload = load(write(HEADER + f"{row}\nj,0,tiny,1,16\n{row}\n"))
    assert len(workload.jobs) == 1
    assert [problem.line for problem in workload.problems] == [2, 4]
    assert all(text in problem.text for problem in workload.problems)


@pytest.mark.parametrize(
    ("name", "rows", "line", "text"),
    [
        (
            "placements.csv",
            "placement,local_bsz,step_time,sync_time\n1,8,2,0\n1,4,-1,0\n",
            3,
            "step_time must be above 0",
        ),
        ("placements.csv", "placement,local_bsz,step_time,sync_time\n1,8,2,0\n1,4,1,2\n", 3, "sync_time 2 is longer"),
        ("placements.csv", "placement,local_bsz,step_time,sync_time\n1,8,2,0\nx,4,1,0\n", 3, "placement is not a row"),
        ("scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n2,8,4,x,0\n", 2, "step_time is not"),
        ("validation-16.csv", "iteration,metric\n0,1\n9,2\n", 2, "iteration must be above 0"),
    ],
)
def test_bad_rows_of_a_profile_are_reported_once(write, profile, name, rows, line, text):
    profile()
    write(rows, f"profiles/tiny/{name}")
    workload = load(write(HEADER + "j,0,tiny,1,16\nj,0,tiny,1,16\n"))
    assert len(workload.jobs) == 2
    (problem,) = workload.problems
    assert problem.line == line
    assert text in problem.text
    assert f"tiny/{name}: " in problem.text


@pytest.mark.parametrize("name", ["placements.csv", "validation-16.csv"])
def test_a_profile_without_measurements_is_said(write, profile, tmp_path, name):
    profile()
    (tmp_path / "profiles/tiny" / name).unlink()
    (tmp_path / "profiles/tiny/validation-32.csv").unlink()
    with pytest.raises(InvalidSpec, match="no profile of tiny: there is no "):
        load(write(HEADER + "j,0,tiny,1,16\n"))


def test_a_profile_without_scalability_ends_at_its_placements(write, profile, tmp_path):
    profile()
    (tmp_path / "profiles/tiny/scalability.csv").unlink()
    assert job_of(write, "j,0,tiny,1,32").speedup.most == 6


@pytest.mark.parametrize(("nodes", "step"), [((1,), 4.0), ((2,), 2.5), ((1, 1), 9.0)])
def test_where_its_replicas_are_tells_how_fast_it_is(write, profile, nodes, step):
    profile()
    assert job_of(write, "j,0,tiny,1,16").placed(nodes) == pytest.approx(4.0 / step)


@pytest.mark.parametrize("nodes", [(1, 4), (1, 1, 1), (1, 1, 1, 1)])
def test_a_placement_that_was_not_measured_is_taken_for_a_packed_one(write, profile, nodes):
    profile()
    job = job_of(write, "j,0,tiny,1,16")
    assert job.placed(nodes) == pytest.approx(job.speedup(sum(nodes)))


@pytest.mark.parametrize(
    ("replicas", "batch", "use"),
    [(1, 16, 1.0), (2, 16, 2.0 / 2.5), (2, 32, 4.0 / 4.5)],  # alone nothing is exchanged; of two passes one exchanges
)
def test_what_does_not_wait_for_gradients_is_use_of_a_gpu(write, profile, replicas, batch, use):
    profile()
    assert job_of(write, f"j,0,tiny,{replicas},{batch}").gpu_use == pytest.approx(use)
