"""Slurm's own account of what it has run."""

import pytest

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces.registry import load

HEAD = "JobID|JobName|User|Submit|ElapsedRaw|State|AllocCPUS|AllocTRES"


def jobs_of(write, *rows, head=HEAD, **more):
    return load(write("\n".join([head, *rows]) + "\n", "past.txt"), **more).jobs


def test_a_job_with_gpus(write):
    row = "417|train bert|ann|2026-03-01T10:00:05|7200|COMPLETED|16|billing=16,cpu=16,gres/gpu=4,mem=64G,node=2"
    (job,) = jobs_of(write, row)
    assert (job.label, job.name, job.user, job.gpus, job.duration, job.cpus) == (
        "417",
        "train bert",
        "ann",
        4,
        7200.0,
        0.0,
    )
    assert job.arrival == 1772359205.0


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("cpu=8,gres/gpu:a100=2,node=1", 2),
        ("cpu=8,gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1", 3),
        ("cpu=8,gres/gpu:a100=2,gres/gpu:v100=1", 3),
        ("cpu=8,gres/gpumem=40G,node=1", 0),
    ],
)
def test_gpus_are_named_in_all_or_by_their_kind(write, tres, gpus):
    (job,) = jobs_of(write, f"1|a|ann|2026-03-01T10:00:05|60|COMPLETED|8|{tres}")
    assert (job.gpus, job.cpus) == (gpus, 0.0 if gpus else 8.0)


@pytest.mark.parametrize(
    "row",
    [
        "1.batch|batch||2026-03-01T10:00:05|60|COMPLETED|8|cpu=8",
        "1.0|python||2026-03-01T10:00:05|60|COMPLETED|8|cpu=8",
        "1|a|ann|2026-03-01T10:00:05|0|CANCELLED by 1000|0|",
        "1|a|ann|2026-03-01T10:00:05|60|RUNNING|8|cpu=8",
        "1|a|ann|2026-03-01T10:00:05|0|PENDING|0|",
    ],
)
def test_what_never_ran_and_what_still_runs_is_no_job(write, row):
    (job,) = jobs_of(write, row, "2_7|b|bob|2026-03-01T10:00:06|9|FAILED|2|cpu=2", strict=True)
    assert (job.label, job.duration) == ("2_7", 9.0)


@pytest.mark.parametrize(
    ("elapsed", "seconds"), [("1-02:03:04", 93784.0), ("02:03:04", 7384.0), ("03:04", 184.0), ("00:00:07", 7.0)]
)
def test_elapsed_in_words_and_a_separator_at_the_end(write, elapsed, seconds):
    head = "JobID|Submit|Elapsed|ReqTRES|"
    (job,) = jobs_of(write, f"1|2026-03-01T10:00:05|{elapsed}|cpu=2,gres/gpu=1|", head=head)
    assert (job.duration, job.gpus) == (seconds, 1)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1|a|ann|yesterday|60|COMPLETED|8|cpu=8", "Submit is not a date and time"),
        ("1|a|ann|2026-03-01T10:00:05|-3|COMPLETED|8|cpu=8", "ElapsedRaw must not be negative"),
        ("1|a|b|ann|2026-03-01T10:00:05|60|COMPLETED|8|cpu=8", "has 9 columns where the header has 8"),
        ("1|a|ann|2026-03-01T10:00:05||COMPLETED|8|cpu=8", "Elapsed is not"),
        ("1|a|ann|2026-03-01T10:00:05|6|COMPLETED|8|gres/gpu=900000", "beyond all measure"),
    ],
)
def test_a_wrong_row_is_told(write, row, words):
    with pytest.raises(InvalidSpec, match=words):
        jobs_of(write, row, strict=True)
