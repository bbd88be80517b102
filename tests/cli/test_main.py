"""The command as a whole: help, version, exit codes, errors in words, quick start."""

import json
import os
import subprocess
import sys

import pytest

from schedulearn import __version__
from schedulearn.cli.main import VERBS
from support.application import TOKENS

ALL_VERBS = [verb for verbs in VERBS.values() for verb in verbs]
SUBCOMMANDS = [
    ("nodes", "drain"), ("nodes", "undrain"), ("policy", "set"), ("users", "add"), ("users", "update"),
    ("users", "remove"), ("tokens", "create"), ("tokens", "link"),
    ("tokens", "revoke"),
]  # fmt: skip


def test_version(cli):
    assert cli("--version").out == f"schedulearn {__version__}\n"


@pytest.mark.parametrize("args", [(), ("--help",), ("-h",)])
def test_help_lists_every_verb_and_the_exit_codes(cli, args):
    result = cli(*args)
    assert result.code == 0
    assert all(f"  {verb} " in result.out for verb in ALL_VERBS)
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "130 "):
        assert f"\n    {code}" in result.out


@pytest.mark.parametrize("path", [*((verb,) for verb in ALL_VERBS), *SUBCOMMANDS], ids=" ".join)
def test_every_verb_has_an_example_in_its_help(cli, path):
    result = cli(*path, "--help")
    assert result.code == 0
    assert "Example" in result.out
    assert f"  schedulearn {' '.join(path)}" in result.out


def test_a_verb_that_does_not_exist(cli):
    result = cli("sumbit")
    assert (result.code, result.out) == (2, "")
    assert "no such command: 'sumbit'" in result.err
    assert "submit" in result.err.splitlines()[1]


def test_an_option_that_does_not_exist(cli):
    result = cli("ls", "--colour")
    assert result.code == 2
    assert "--colour" in result.err
    assert "schedulearn ls --help" in result.err


def test_a_job_id_that_is_none(cli):
    result = cli("logs", "abc")
    assert result.code == 2
    assert "'abc'" in result.err
    assert "such as 17" in result.err


def test_no_service_is_known(cli, monkeypatch, tmp_path):
    monkeypatch.delenv("SCHEDULEARN_URL", raising=False)
    monkeypatch.setenv("SCHEDULEARN_DATA", str(tmp_path))
    result = cli("ls")
    assert (result.code, result.out) == (4, "")
    assert "schedulearn up" in result.err


def test_the_service_does_not_answer(cli, service, monkeypatch):
    monkeypatch.setenv("SCHEDULEARN_URL", "http://127.0.0.1:9")
    result = cli("ls", "--json")
    assert (result.code, result.out) == (4, "")
    assert "127.0.0.1:9" in result.err


@pytest.mark.parametrize("verb", ["describe", "logs", "explain", "wait", "cancel", "rm", "pause", "resume", "pull"])
def test_no_such_job(cli, service, verb):
    result = cli(verb, 99)
    assert result.code == 3
    assert "there is no job 99" in result.err


@pytest.mark.parametrize(
    ("token", "node", "code", "says"),
    [
        ("sl_nobody", "gpu2", 2, "SCHEDULEARN_TOKEN"),
        (TOKENS["bob"], "gpu2", 2, "your own jobs"),
        (TOKENS["ann"], "local", 2, "the service's own machine"),
        (TOKENS["ann"], "gpu9", 3, "there is no node 'gpu9'"),
    ],
)
def test_refusals(cli, service, monkeypatch, token, node, code, says):
    monkeypatch.setenv("SCHEDULEARN_TOKEN", token)
    result = cli("nodes", "remove", node)
    assert result.code == code
    assert says in result.err


def test_a_fault_of_the_service(cli, service, monkeypatch):
    monkeypatch.setattr(service.gateway.servers, "views", lambda: 1 / 0)
    result = cli("nodes")
    assert result.code == 4
    assert "service.log" in result.err


def test_errors_have_no_colours_in_a_pipe(cli, service):
    assert "\x1b" not in cli("describe", 99).err


def test_errors_are_red_in_a_terminal(terminal, service):
    code, shown = terminal(80, "describe", "99")
    assert code == 3
    assert "\x1b[31m" in shown


def test_quick_verbs_import_nothing_heavy(service):
    """Neither the server's side nor rich or yaml: `ls` into a pipe and `--help` stay quick."""
    heavy = ("fastapi", "sqlalchemy", "uvicorn", "rich", "yaml", "schedulearn.core.domain", "schedulearn.service")
    script = f"""
import json, sys
from schedulearn.cli.main import main
before = set(sys.modules)
code = main(json.loads(sys.argv[1]))
print(json.dumps([code, [m for m in {heavy!r} if m in sys.modules]]), file=sys.stderr)
"""
    for args in (["ls"], ["--help"], ["describe", "99"]):
        ran = subprocess.run(
            [sys.executable, "-c", script, json.dumps(args)], capture_output=True, text=True, check=True
        )
        assert json.loads(ran.stderr.splitlines()[-1])[1] == []


def test_a_reader_that_goes_away_is_no_error(jobs):
    jobs.copies(20, 390)
    command = f"{sys.executable} -m schedulearn.cli ls --state succeeded --limit 399 | head -n 1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split()[0] == "ID"


def test_job_ids_are_completed(jobs):
    environment = {"_SCHEDULEARN_COMPLETE": "complete_bash", "COMP_WORDS": "schedulearn logs 1", "COMP_CWORD": "2"}
    ran = subprocess.run(
        [sys.executable, "-m", "schedulearn.cli"], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert ran.stdout.split() == ["19", "18", "17"]
