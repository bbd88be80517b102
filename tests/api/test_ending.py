"""A signal that comes while Python clears something up is not lost."""

import subprocess
import sys

import pytest

# What is raised in `__del__` is thrown away.
LOSE = """
import os, signal
from pathlib import Path
from schedulearn.api import server
from schedulearn.api.http.connections import limits_for_this_process
from schedulearn.api.http.ending import end_on_signals, told_to_end
from schedulearn.service.common.config import Options

class Cleared:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass

async def app(scope, receive, send):
    pass

end_on_signals()
Cleared()
assert told_to_end()
try:
    {wait}
except KeyboardInterrupt:
    pass
print("over")
"""
SERVE = "server._Address(Options(Path(), port=0)).run(app, limits_for_this_process(), lambda: None)"


@pytest.mark.slow
@pytest.mark.parametrize("wait", [SERVE, "server._wait_for_signal()"])
def test_a_signal_that_python_threw_away_ends_the_service(wait: str) -> None:
    script = LOSE.format(wait=wait)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert "Exception ignored" in done.stderr, "this is about one that is thrown away"
    assert (done.stdout, done.returncode) == ("over\n", 0)
