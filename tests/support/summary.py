"""An option of pytest: the tests that failed, one id a line, for `scripts/test`."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed-to", metavar="FILE", help="write the ids of tests that failed into this file")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    path = config.getoption("--failed-to")
    if path:
        reports = [report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])]
        Path(path).write_text("".join(f"{name}\n" for name in dict.fromkeys(map(_id, reports))))


def _id(report: pytest.TestReport) -> str:
    """Where tests are spread over processes, their group stands behind each id: see `support.lanes`."""
    return report.nodeid.removesuffix(f"@{report.nodeid.partition('::')[0]}")
