"""`compare --now`: what is foreseen of the jobs there are, as a table, as JSON, and on a narrow terminal."""

import pytest

pytestmark = pytest.mark.slow  # a process of the service looks ahead


def test_the_table_has_a_row_for_each_job_and_the_average(cli, jobs):
    """Job 18 waits for the GPU of job 17."""
    shown = cli("compare", "--now", "--policies", "fifo,srjf")
    head, *rows = shown.out.splitlines()
    assert head.split()[:5] == ["job", "name", "state", "fifo", "(now)"]
    assert head.split()[5:] == ["srjf"]
    assert [row.split()[0] for row in rows[:3]] == ["17", "18", "-"]
    assert "average completion" in rows[2]
    assert "Time until each job ends" in shown.err
    assert "if no other job comes" in shown.err


def test_json(cli, jobs):
    told = cli("compare", "--now", "--policies", "srtf", "--json").json
    assert told["policies"] == ["fifo", "srtf"]
    ends = [job["finishes"]["srtf"] for job in told["jobs"]]
    assert all(end["low"] <= end["expected"] <= end["high"] for end in ends)
    mean = sum(end["expected"] for end in ends) / len(ends)
    assert told["average"]["srtf"]["expected"] == pytest.approx(mean)


def test_a_narrow_terminal_leaves_policies_out_and_nothing_is_too_wide(terminal, jobs):
    code, shown = terminal(70, "compare", "--now", "--policies", "fifo,srjf,srtf")
    assert code == 0
    [head] = [line for line in shown.splitlines() if "fifo (now)" in line]
    assert "srtf" not in head


def test_without_jobs_there_is_nothing_to_foresee(cli, service):
    refused = cli("compare", "--now")
    assert (refused.code, refused.out) == (2, "")
    assert "now: no job runs or waits" in refused.err


@pytest.mark.parametrize(
    "option", [("--trace", "x.csv"), ("--oracle",), ("--seeds", "2"), ("--out", "x"), ("--history",)]
)
def test_options_of_a_replay_are_refused(cli, jobs, option):
    refused = cli("compare", "--now", *option)
    assert (refused.code, refused.out) == (2, "")
    assert f"{option[0]}: it cannot be combined with --now" in refused.err


def test_an_unknown_policy_is_refused(cli, jobs):
    assert "unknown policy 'nope'" in cli("compare", "--now", "--policies", "nope").err
