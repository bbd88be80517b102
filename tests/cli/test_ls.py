"""The list of jobs: which, in what order, and how it looks in a pipe and in terminals of several widths."""

import re

import pytest

LONG = "a-name-that-is-much-longer-than-any-column-of-a-table-on-a-small-terminal-could-ever-be-shown-whole"


@pytest.fixture
def jobs(service, new_job):
    service.jobs = {
        1: new_job(1, "succeeded"),
        2: new_job(2, "failed", reason="no restarts left"),
        3: new_job(3, "running", name=LONG),
        4: new_job(4, "queued", priority=90),
    }
    return service


def ids(result):
    return [job["id"] for job in result.json]


def test_json_is_a_list_of_jobs(cli, jobs):
    assert cli("ls", "--json").json == list(jobs.jobs.values())


def test_by_default_unfinished_jobs_and_the_last_finished_ones(cli, service, new_job):
    service.jobs = {n: new_job(n, "succeeded") for n in range(1, 31)} | {31: new_job(31, "queued")}
    assert ids(cli("ls", "--json")) == [*range(21, 31), 31]
    assert ids(cli("ls", "--all", "--json")) == list(range(1, 32))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--state", "running"], [3]),
        (["--state", "running", "--state", "failed"], [2, 3]),
        (["--state", "queued,failed"], [2, 4]),
        (["--state", "active"], [3, 4]),
        (["--state", "finished", "--reverse"], [2, 1]),
        (["--all", "--sort", "priority", "--reverse", "--limit", "1"], [4]),
        (["--limit", "2"], [3, 4]),
        (["--sort", "finished_at"], [3, 4, 1, 2]),  # first those that have not
    ],
)
def test_filter_and_order(cli, jobs, args, expected):
    assert ids(cli("ls", "--json", *args)) == expected


@pytest.mark.parametrize("scope", [["--all"], []])
def test_user_and_names_are_asked_for(cli, jobs, scope):
    cli("ls", *scope, "--user", "ann", "--name", "mnist", "--search", "mni")
    queries = [request.query for request in jobs.asked("GET", "/jobs")]
    assert queries
    assert {(*query["user"], *query["name"], *query["search"]) for query in queries} == {("ann", "mnist", "mni")}


def test_all_pages_are_fetched(cli, service, new_job):
    service.jobs = {n: new_job(n, "succeeded") for n in range(1, 1203)}
    assert ids(cli("ls", "--all", "--json")) == list(range(1, 1203))


def test_a_long_table_is_cut_and_says_so(cli, service, new_job):
    service.jobs = {n: new_job(n, "queued") for n in range(1, 151)}
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
    lines = cli("ls").out.splitlines()
    assert len(lines) == 5
    assert lines[0].split()[:4] == ["ID", "NAME", "USER", "STATE"]
    assert lines[0].split()[-1] == "WHY"
    assert LONG in lines[3]
    assert "no restarts left: exit code 7" in lines[2]
    assert not re.search(r"[…│┃─━┏\x1b]", "\n".join(lines))
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_a_terminal_gets_what_fits(terminal, jobs, columns):
    code, shown = terminal(columns, "ls")
    assert code == 0
    assert "\x1b[" in shown
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "").splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) == 6  # heads, four jobs, the hint: nothing is wrapped
    for number, state in ((1, "succeeded"), (2, "failed"), (3, "running"), (4, "queued")):
        assert re.search(rf"^\s*{number}  .*{state}", "\n".join(lines), re.MULTILINE)
    assert ("CURVE" in lines[0]) == (columns > 60)
    assert "It needs 2 G" in lines[4]


def test_what_a_job_is_called_cannot_steer_the_terminal(cli, service, new_job):
    service.jobs = {1: new_job(1, name="evil\x1b[2J\nname")}
    out = cli("ls").out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


def test_why_a_job_waits_is_there_without_asking_for_each(cli, service, new_job):
    service.jobs = {n: new_job(n, "queued") for n in range(1, 31)} | {31: new_job(31, "queued", reason="waits for 3")}
    lines = cli("ls").out.splitlines()[1:]
    assert all(line.endswith("It needs 2 GPUs on one node; the most free is 1.") for line in lines[:20])
    assert all(line.endswith("not among the first 20 of the queue") for line in lines[20:30])
    assert lines[30].endswith("waits for 3")
    assert len(service.asked("GET", "/overview")) == 1
    assert not [request for request in service.requests if request.path.endswith("/explain")]


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
