"""Where the tests find Horovod, and what its example says."""

import os
import re
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "horovod_keras.py"
HOME = Path(os.environ.get("HOROVOD_FOR_TESTS") or Path.home() / ".cache/schedulearn-tests/horovod")  # build-horovod's
BIN = HOME / "venv" / "bin"
ENV = {"PATH": f"{BIN}:{os.environ['PATH']}", "TF_CPP_MIN_LOG_LEVEL": "2"}  # of a job whose Horovod lies there
LONG = 120.0  # seconds: TensorFlow alone takes many to import on a busy machine
MARKS = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (BIN / "horovodrun").exists(), reason="Horovod is not built here: make test-horovod builds it"
    ),
]
_STEP = re.compile(r"step (\d+) of (\d) processes, loss=([\d.]+)")


def steps(said: bytes) -> list[tuple[int, int]]:
    """Step and number of processes, as far as it has come."""
    return [(int(step), int(size)) for step, size, _ in _STEP.findall(said.decode())]
