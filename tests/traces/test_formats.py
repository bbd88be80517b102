"""Each format is read by its header: whatever the line ends, the encoding, the quotes and the order of columns."""

from pathlib import Path

import pytest

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces.numbers import read_numbers
from schedulearn.lab.traces.registry import FORMATS, load
from schedulearn.lab.traces.types import TraceJob

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n" + (
    "1970-01-01 00:01:00,66.0,2,132.0,vc1\n1970-01-01 00:00:05,7,1,7,vc2\n"
)
ELASTICFLOW = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n" + (
    "a-1,10,3249,bert,50,32,4,75\n"
)
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,8,30,606,vgg19,164,30\n"


def test_philly(write):
    workload = load(write(PHILLY, "mine.csv"))
    assert workload.name == "mine"
    assert list(workload.jobs) == [
        TraceJob(label="2", arrival=60.0, duration=66.0, gpus=2, user="vc1"),
        TraceJob(label="3", arrival=5.0, duration=7.0, gpus=1, user="vc2"),
    ]
    assert list(workload.problems) == []


def test_elasticflow(write):
    (job,) = load(write(ELASTICFLOW)).jobs
    assert job == TraceJob(label="a-1", arrival=10.0, duration=75.0, gpus=4, name="bert", deadline=50.0)


def test_tiresias(write):
    (job,) = load(write(TIRESIAS)).jobs
    assert job == TraceJob(label="0", arrival=30.0, duration=164.0, gpus=8, name="vgg19")


def test_a_duration_of_zero_is_a_job(write):
    assert load(write(TIRESIAS.replace(",164,", ",0,")), strict=True).jobs[0].duration == 0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TIRESIAS.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(TIRESIAS.replace("\n", "\r"), id="CR"),
        pytest.param(TIRESIAS.rstrip("\n"), id="no line end at the end"),
        pytest.param("\n\n" + TIRESIAS.replace("\n", "\n\n  \n"), id="blank lines"),
        pytest.param(TIRESIAS.encode("utf-8-sig"), id="byte-order mark"),
        pytest.param("submit_time,duration,num_gpu,job_id,model_name\n30,164,8,0,vgg19\n", id="another order"),
        pytest.param("num_gpu,submit_time,extra,duration,job_id,model_name\n8,30,?,164,0,vgg19\n", id="extra column"),
        pytest.param('"job_id","num_gpu","submit_time","model_name","duration"\n"0",8,"30","vgg19",164\n', id="quotes"),
        pytest.param(" Job_ID , NUM_GPU , submit_time,model_name,duration\n 0 , 8 , 30 , vgg19 , 164 \n", id="blanks"),
        pytest.param(TIRESIAS.replace(",8,30,", ",8.0,3e1,"), id="other ways to write numbers"),
    ],
)
def test_the_way_it_is_written_does_not_matter(write, text):
    (job,) = load(write(text), strict=True).jobs
    assert job == TraceJob(label="0", arrival=30.0, duration=164.0, gpus=8, name="vgg19")


def test_a_quoted_field_may_hold_a_comma(write):
    assert load(write(TIRESIAS.replace("vgg19", '"vgg, 19 ""big"""'))).jobs[0].name == 'vgg, 19 "big"'


def test_bytes_that_are_no_utf8_stay_visible(write):
    text = TIRESIAS.encode().replace(b"vgg19", b"caf\xe9") + b"1,\xff,30,1,x,5,1\n"
    workload = load(write(text))
    assert [job.name for job in workload.jobs] == ["caf\\xe9"]
    assert [(problem.line, "num_gpu" in problem.text) for problem in workload.problems] == [(3, True)]


@pytest.mark.parametrize(
    ("when", "seconds"),
    [
        ("2017-10-09 07:01:55", 1507532515.0),
        ("2017-10-09T07:01:55Z", 1507532515.0),
        ("2017-10-09 09:01:55.500+02:00", 1507532515.5),
        ("2017-10-09", 1507507200.0),
    ],
)
def test_timestamps_are_utc_unless_they_say(write, when, seconds):
    assert load(write(f"timestamp,duration,num_gpus\n{when},1,1\n")).jobs[0].arrival == seconds


def test_the_first_jobs_by_arrival_keep_the_order_of_the_file(write):
    rows = "".join(f"{label},1,{when},1,m,5,1\n" for label, when in [("a", 9), ("b", 3), ("c", 1), ("d", 3), ("e", 0)])
    path = write(TIRESIAS.splitlines()[0] + "\n" + rows)
    assert [job.label for job in load(path, jobs=3).jobs] == ["b", "c", "e"]  # of b and d, b is first in the file
    assert [job.label for job in load(path, jobs=99).jobs] == list("abcde")
    with pytest.raises(InvalidSpec, match="jobs: must be at least 1"):
        load(path, jobs=0)


def test_an_unknown_header_names_the_formats(write):
    with pytest.raises(InvalidSpec) as caught:
        load(write("a,b\n1,2\n"))
    assert all(name in str(caught.value) for name in FORMATS)
    assert "'a,b'" in str(caught.value)


def test_an_unknown_format_suggests_the_nearest(write):
    with pytest.raises(InvalidSpec, match=r"format: unknown: 'phily'; did you mean philly\?"):
        load(write(PHILLY), format="phily")


def test_a_given_format_names_the_columns_it_misses(write):
    with pytest.raises(InvalidSpec, match="has no column timestamp, num_gpus"):
        load(write(TIRESIAS), format="philly")


@pytest.mark.parametrize("text", ["", "\n \r\n", "\ufeff"])
def test_an_empty_file_is_an_error(write, text):
    with pytest.raises(InvalidSpec, match="is empty"):
        load(write(text))


def test_a_header_alone_is_an_error(write):
    with pytest.raises(InvalidSpec, match="has a header and no jobs"):
        load(write(TIRESIAS.splitlines()[0] + "\n"))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(InvalidSpec, match=r"cannot read .*No such file"):
        load(str(tmp_path / "nothing.csv"))
    with pytest.raises(InvalidSpec, match="cannot read"):
        load(str(tmp_path))


@pytest.mark.parametrize("text", ["duration\r\n30\r\n10\r\n\r\n20\r\n", "10\n20\n30", '"gpu time"\n30\n20\n1e1\n'])
def test_numbers_of_a_file_are_sorted(write, text):
    assert read_numbers(Path(write(text))) == (10.0, 20.0, 30.0)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("duration\n1\nx\n", "line 3 is not a number: 'x'"),
        ("duration\n-1\n", "line 2 must not be negative"),
        ("duration\n1\nnan\n", "line 3 must be finite"),
        ("nan\n1\n", "line 1 must be finite"),
        ("duration\n1,2\n", "line 2 is not a number"),
        ("duration\n", "has no numbers"),
        ("", "has no numbers"),
    ],
)
def test_numbers_of_a_file_with_holes_are_an_error(write, text, error):
    with pytest.raises(InvalidSpec, match=error):
        read_numbers(Path(write(text)))
