"""The list of jobs: which, in what order, and how it looks in a pipe and in terminals of several widths."""

import re

import pytest

from schedulearn.client import Client

WHY = "It needs 1 GPU and 1 core on one node; the most free on one node is 0 GPUs."
LONG = "a-name-that-is-much-longer-than-any-column-of-a-table-on-a-small-terminal-could-ever-be-shown-whole"


def ids(result):
    return [job["id"] for job in result.json]


def test_json_is_a_list_of_jobs(cli, jobs):
    with Client() as client:
        assert cli("ls", "--json").json == client.jobs()["jobs"]


def test_by_default_unfinished_jobs_and_the_last_finished_ones(cli, jobs):
    jobs.copies(20, 30)
    assert ids(cli("ls", "--json")) == [17, 18, *range(41, 51)]
    assert ids(cli("ls", "--all", "--json")) == list(range(17, 51))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--state", "running"], [17]),
        (["--state", "running", "--state", "failed"], [17, 19]),
        (["--state", "queued,failed"], [18, 19]),
        (["--state", "active"], [17, 18]),
        (["--state", "finished", "--reverse"], [20, 19]),
        (["--all", "--sort", "priority", "--reverse", "--limit", "1"], [18]),
        (["--limit", "2"], [17, 18]),
        (["--sort", "finished_at"], [17, 18, 19, 20]),  # first those that have not
        (["--all", "--user", "ann", "--search", "mnist-2"], [20]),
        (["--user", "bob"], []),
    ],
)
def test_filter_and_order(cli, jobs, args, expected):
    jobs.change(18, priority=90)
    assert ids(cli("ls", "--json", *args)) == expected


@pytest.mark.parametrize("scope", [["--all"], []])
def test_user_and_names_are_asked_for(cli, jobs, scope):
    cli("ls", *scope, "--user", "ann", "--name", "mnist", "--search", "mni")
    queries = [request.query for request in jobs.asked("GET", "/jobs")]
    assert queries
    assert {(*query["user"], *query["name"], *query["search"]) for query in queries} == {("ann", "mnist", "mni")}


def test_all_pages_are_fetched(cli, jobs):
    jobs.copies(20, 1200)
    assert ids(cli("ls", "--all", "--json")) == list(range(17, 1221))


def test_a_long_table_is_cut_and_says_so(cli, jobs):
    jobs.copies(18, 148)
    result = cli("ls")
    assert len(result.out.splitlines()) == 101
    assert "100 of 150 jobs shown" in result.err


@pytest.mark.parametrize(("args", "field"), [(["--state", "lost"], "--state"), (["--sort", "age"], "--sort")])
def test_what_is_not_known_is_refused(cli, jobs, args, field):
    result = cli("ls", *args)
    assert result.code == 2
    assert field in result.err
    assert "allowed: " in result.err


def test_a_pipe_gets_every_column_whole_and_plain(cli, jobs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    jobs.change(19, reason="no restarts left")
    jobs.rename(20, LONG)
    lines = cli("ls").out.splitlines()
    assert len(lines) == 5
    assert lines[0].split()[:4] == ["ID", "NAME", "USER", "STATE"]
    assert lines[0].split()[-1] == "WHY"
    assert LONG in lines[4]
    assert "no restarts left: exit code 7" in lines[3]
    assert not re.search(r"[…│┃─━┏\x1b]", "\n".join(lines))
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_a_terminal_gets_what_fits(terminal, jobs, columns):
    jobs.rename(17, LONG)
    code, shown = terminal(columns, "ls")
    assert code == 0
    assert "\x1b[" in shown
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "").splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) == 6  # heads, four jobs, the hint: nothing is wrapped
    for number, state in ((17, "running"), (18, "queued"), (19, "failed"), (20, "succeeded")):
        assert re.search(rf"^\s*{number}  .*{state}", "\n".join(lines), re.MULTILINE)
    assert ("CURVE" in lines[0]) == (columns > 60)
    assert "It needs 1 G" in lines[2]


def test_what_a_job_is_called_cannot_steer_the_terminal(cli, service):
    service.submit(name="evil\x1b[2J\nname")
    out = cli("ls").out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


def test_why_a_job_waits_is_there_without_asking_for_each(cli, jobs):
    jobs.copies(18, 29)
    jobs.submit(depends_on=(17,))
    lines = cli("ls").out.splitlines()[2:]
    waiting = [line for line in lines if "queued" in line]
    assert WHY in waiting[0]
    assert all("Job 18, which asks for the same and goes first" in line for line in waiting[1:20])
    assert all(line.endswith("not among the first 20 of the queue") for line in waiting[20:30])
    assert waiting[30].endswith("waits for job 17")
    assert len(jobs.asked("GET", "/overview")) == 1
    assert not [request for request in jobs.requests if request.path.endswith("/explain")]


def test_colours_survive_a_pipe_where_they_are_asked_for(cli, jobs, monkeypatch):
    plain = cli("ls").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    painted = cli("ls").out
    assert "\x1b[31mfailed\x1b[0m" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
    assert "\x1b[" in cli("top").out
    assert "\x1b" not in cli("ls", "--json").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli("ls").out == plain
    assert "\x1b" not in cli("top").out


def test_no_jobs_at_all(cli, service):
    result = cli("ls")
    assert "no jobs" in result.out
    assert "schedulearn run" in result.out
    assert cli("ls", "--json").json == []
