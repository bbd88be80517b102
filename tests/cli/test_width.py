"""Every verb in terminals of several widths: no line is wider, and no job's name steers the terminal."""

import re

import pytest

from schedulearn.cli.view.text import columns_of
from support.application import Application

EVIL = "evil\x1b[2J\x07 训练模型-数字识别 🚀 [bold]x[/] <b>y</b> " + "and so on " * 5
VERBS = [
    "ls", "ls --all", "top --once", "describe 20", "describe 19", "describe 18", "explain 18", "wait 19 20", "nodes",
    "policy", "policy set fifo", "users", "tokens", "experiment list", "pause 17", "resume 21", "cancel 17",
    "update 18 --priority 80", "rm 20", "describe 99", "submit -- python train.py", "submit --dry-run -- x", "logs 18",
]  # fmt: skip
TRACE = "--trace synthetic:philly?jobs=20 --cluster 1x4"
STUDIES = [f"simulate {TRACE}", f"compare {TRACE} --policies fifo,srjf"]  # on stderr they draw a bar


@pytest.fixture(scope="module")
def evil(api, busy_once, tmp_path_factory):
    """Jobs whose names are long and would steer a terminal; one more of them is paused."""
    application = Application(api, tmp_path_factory.mktemp("evil") / "data", busy_once)
    application.submit()
    application.bench.ask("pause", 21)
    application.turn()
    application.change(19, reason="the last of many restarts came to the same end as all of those before it")
    for number in (17, 18, 19, 20, 21):
        application.rename(number, EVIL)
    kept = application.kept()
    application.close()
    return kept


@pytest.fixture
def on_a_terminal(cli, begin, evil, monkeypatch):
    """Run a verb in this process as if a terminal of this width showed it; what it shows, without colours."""
    begin(evil)

    def run(width, *args):
        monkeypatch.setenv("COLUMNS", str(width))
        for stream in ("sys.stdout.isatty", "sys.stderr.isatty"):
            monkeypatch.setattr(stream, lambda: True, raising=False)
        result = cli(*args)
        return re.sub(r"\x1b\[[0-9;]*m", "", result.out + ("" if args[0] in ("simulate", "compare") else result.err))

    return run


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("verb", [*VERBS, *STUDIES])
def test_no_line_is_wider_than_the_terminal(on_a_terminal, verb, width):
    shown = on_a_terminal(width, *verb.split())
    assert shown.strip()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", shown.replace("\r", ""))
    wide = [line for line in shown.splitlines() if columns_of(line) > width]
    assert [line for line in wide if len(line.split()) > 1 and not line.startswith("    ")] == []  # a word, a command
