"""Rows that cannot be used are counted with their line and the reason; `strict` refuses the file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces.registry import load
from schedulearn.lab.traces.table import Source
from schedulearn.lab.traces.tiresias import read

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"
PHILLY_ROW = "2017-10-09 07:01:55,66.0,1,66.0,vc"
ELASTICFLOW = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"
ELASTICFLOW_ROW = "a,10,1,bert,50,32,4,75"
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
TIRESIAS_ROW = "0,1,0,606,vgg19,164,30"

CASES = [
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,66.0,1,66.0", "has 4 columns where the header has 5"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,66.0,1,66.0,vc,", "has 6 columns where the header has 5"),
    (
        PHILLY,
        PHILLY_ROW,
        "2017-13-09 07:01:55,66.0,1,66.0,vc",
        "timestamp is not a date and time: '2017-13-09 07:01:55'",
    ),
    (PHILLY, PHILLY_ROW, "yesterday,66.0,1,66.0,vc", "timestamp is not a date and time: 'yesterday'"),
    (PHILLY, PHILLY_ROW, "20171009,66.0,1,66.0,vc", "timestamp is not a date and time: '20171009'"),
    (PHILLY, PHILLY_ROW, ",66.0,1,66.0,vc", "timestamp is missing"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,,1,66.0,vc", "duration is missing"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,-1,1,66.0,vc", "duration must not be negative: '-1'"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,long,1,66.0,vc", "duration is not a number: 'long'"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,nan,1,66.0,vc", "duration must be finite, not 'nan'"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,1e999,1,66.0,vc", "duration must be finite, not '1e999'"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,1_000,1,66.0,vc", "duration is not a number: '1_000'"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,66,0,66.0,vc", "num_gpus must be 1 to 100000, not '0'"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,66,-2,66.0,vc", "num_gpus must be 1 to 100000, not '-2'"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,66,1e18,66.0,vc", "num_gpus must be 1 to 100000, not '1e18'"),
    (PHILLY, PHILLY_ROW, "2017-10-09 07:01:55,66,1.5,66.0,vc", "num_gpus must be a whole number, not '1.5'"),
    (PHILLY, PHILLY_ROW, '2017-10-09 07:01:55,66,1,66.0,"vc', "a quote is not closed"),
    (ELASTICFLOW, ELASTICFLOW_ROW, "a,10,1,bert,,32,4,75", "deadline is missing"),
    (ELASTICFLOW, ELASTICFLOW_ROW, "a,10,1,bert,inf,32,4,75", "deadline must be finite"),
    (ELASTICFLOW, ELASTICFLOW_ROW, "a,noon,1,bert,50,32,4,75", "submission_time is not a number: 'noon'"),
    (ELASTICFLOW, ELASTICFLOW_ROW, "a,10,1,bert,50,32,,75", "num_gpu is missing"),
    (TIRESIAS, TIRESIAS_ROW, "0,1,nan,606,vgg19,164,30", "submit_time must be finite"),
    (TIRESIAS, TIRESIAS_ROW, "0,one,0,606,vgg19,164,30", "num_gpu is not a number: 'one'"),
    (TIRESIAS, TIRESIAS_ROW, "0,1,0,606,vgg19,-164,30", "duration must not be negative"),
]


@pytest.mark.parametrize(("header", "good", "bad", "text"), CASES)
def test_a_bad_row_is_reported_with_its_line_and_the_others_are_kept(write, header, good, bad, text):
    path = write(f"{header}\n{good}\n\n{bad}\n{good}\n")
    workload = load(path)
    assert len(workload.jobs) == 2
    ((line, told),) = [(problem.line, problem.text) for problem in workload.problems]
    assert line == 4
    assert text in told
    with pytest.raises(InvalidSpec, match="has 1 malformed rows: line 4: "):
        load(path, strict=True)


def test_strict_names_the_first_lines(write):
    path = write("\n".join([TIRESIAS, TIRESIAS_ROW, *["x"] * 8]))
    with pytest.raises(InvalidSpec) as caught:
        load(path, strict=True)
    told = str(caught.value)
    assert "8 malformed rows: line 3: " in told
    assert "line 7: " in told
    assert "line 8: " not in told
    assert told.endswith("and 3 more")


def test_a_file_with_bad_rows_alone_is_an_error(write):
    with pytest.raises(InvalidSpec, match=r"no row of .* can be used: line 2: has 1 columns"):
        load(write(f"{TIRESIAS}\nx\n"))


def test_a_long_value_is_cut_in_the_message(write):
    workload = load(write(f"{TIRESIAS}\n{TIRESIAS_ROW}\n0,{'9' * 5000}x,0,606,vgg19,164,30\n"))
    assert len(workload.problems[0].text) < 120


@given(st.lists(st.text()))
def test_every_row_becomes_a_job_or_a_problem(rows):
    rows = [row for row in rows if not set(row) & set("\r\n")]
    jobs, problems = read(Source(None, [TIRESIAS, *rows]))
    assert len(jobs) + len(problems) == sum(bool(row.strip()) for row in rows)
