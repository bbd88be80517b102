"""A Keras model under real Horovod with a fixed number of processes. For elastic ones see tests/e2e."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from schedulearn.domain.ports import Launch
from schedulearn.domain.spec import Launcher, Workers
from support.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "horovod_keras.py"
HOME = Path(os.environ.get("HOROVOD_FOR_TESTS") or Path.home() / ".cache/schedulearn-tests/horovod")  # build-horovod's
BIN = HOME / "venv" / "bin"
STEP = re.compile(r"step (\d+) of (\d) processes, loss=([\d.]+)")
LONG = 120.0  # seconds: TensorFlow alone takes many to import on a busy machine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (BIN / "horovodrun").exists(), reason="Horovod is not built here: make test-horovod builds it"
    ),
]


def worker(bench: Any, rank: int, workers: Workers, options: str) -> Launch:
    """Of a job whose Horovod lies in an environment of its own."""
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "TF_CPP_MIN_LOG_LEVEL": "2"}
    spec = {"launcher": Launcher.HOROVOD, "workers": workers, "env": env}
    command = f"python {EXAMPLE} {options}"
    launch: Launch = bench.launch(command, rank=rank, spec=spec, cpu_limit=1.0, world_size=workers.want)
    return launch


def steps(bench: Any, launch: Launch) -> list[tuple[int, int]]:
    """Step and number of processes, as far as it has come."""
    return [(int(step), int(size)) for step, size, _ in STEP.findall(bench.output(launch).decode())]


def test_a_fixed_number_of_processes(bench: Any) -> None:
    launches = [worker(bench, rank, Workers(2, 2, 2), "--steps 3") for rank in (0, 1)]
    executor = bench.executor()
    for launch in launches:
        executor.start(launch)
    wait_until(lambda: bench.paths(launches[0]).exit.exists(), LONG, "Horovod has ended")
    assert [bench.ended(launch).ok for launch in launches] == [True, True]
    assert steps(bench, launches[0]) == [(1, 2), (2, 2), (3, 2)]
