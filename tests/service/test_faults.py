"""What loops that try again tell the log."""

import logging
import socket
from pathlib import Path

import pytest

from schedulearn.core.domain.errors import StoreAway, StoreError
from schedulearn.service.common.repeating import log_fault
from schedulearn.service.loop.nudge import NudgeListener, is_orphaned

_LOG = logging.getLogger("schedulearn.test")


@pytest.mark.parametrize(("error", "lines"), [(StoreAway("full"), 0), (StoreError("newer"), 1), (ValueError("no"), 1)])
def test_a_database_that_is_away_was_told_already(
    error: Exception, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(lines or 200):
        try:
            raise error
        except Exception:
            log_fault(_LOG, "it is tried again")
    assert len(caplog.records) == lines
    assert all(record.exc_info for record in caplog.records)


def test_a_socket_tells_whether_its_scheduler_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "nudge.sock"
    assert not is_orphaned(path), "there may be one elsewhere, or it has stopped and said so"
    listener = NudgeListener(path, lambda: None)
    listener.start()
    assert not is_orphaned(path)
    listener.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
        killed.bind(str(path))
    assert is_orphaned(path)
