"""Options of pytest that write down what a run has found: the tests that failed, for `scripts/test`, one id a line; and
the seconds that files take, from which `support.lanes` orders the next run.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

_LEAST = 1.0  # seconds; a file that takes less may come at any time


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed-to", metavar="FILE", help="write the ids of tests that failed into this file")
    parser.addoption("--seconds-to", metavar="FILE", help="note in this file what each file of tests took")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    if path := config.getoption("--failed-to"):
        reports = [report for kind in ("failed", "error") for report in stats.get(kind, [])]
        Path(path).write_text("".join(f"{name}\n" for name in dict.fromkeys(map(_id, reports))))
    if path := config.getoption("--seconds-to"):
        _note_seconds(Path(path), [one for kind in stats.values() for one in kind if hasattr(one, "duration")])


def _id(report: pytest.TestReport) -> str:
    """Where tests are spread over processes, their group stands behind each id: see `support.lanes`."""
    return report.nodeid.removesuffix(f"@{_file(report)}")


def _file(report: pytest.TestReport) -> str:
    return report.nodeid.partition("::")[0]


def _note_seconds(path: Path, reports: list[pytest.TestReport]) -> None:
    taken: Counter[str] = Counter()
    for report in reports:
        taken[_file(report)] += report.duration
    known = json.loads(path.read_text()) if path.exists() else {}
    known = {file: seconds for file, seconds in known.items() if file not in taken and Path(file).exists()}
    known |= {file: round(seconds) for file, seconds in taken.items() if seconds >= _LEAST}
    path.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
