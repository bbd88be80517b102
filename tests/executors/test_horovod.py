"""A Keras model under real Horovod: of a fixed size, and elastic with 1, 2 and again 1 process, without a restart."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from schedulearn.domain.ports import Launch
from schedulearn.domain.spec import Launcher, Workers
from schedulearn.executors.common.paths import write_json
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


def resize(bench: Any, launch: Launch, members: list[int]) -> None:
    """As the executor does it for a job that changes its size."""
    file = bench.paths(launch).control
    write_json(file, {**json.loads(file.read_text()), "world_size": len(members), "members": members})


def steps(bench: Any, launch: Launch) -> list[tuple[int, int]]:
    """Step and number of processes, as far as it has come."""
    return [(int(step), int(size)) for step, size, _ in STEP.findall(bench.output(launch).decode())]


def trains_with(bench: Any, launch: Launch, size: int) -> None:
    def look() -> bool:
        return [now for _, now in steps(bench, launch)[-3:]] == [size] * 3

    wait_until(look, LONG, f"training goes on with {size}:\n{bench.output(launch).decode()[-2000:]}")


def test_a_fixed_number_of_processes(bench: Any) -> None:
    launches = [worker(bench, rank, Workers(2, 2, 2), "--steps 3") for rank in (0, 1)]
    executor = bench.executor()
    for launch in launches:
        executor.start(launch)
    wait_until(lambda: bench.paths(launches[0]).exit.exists(), LONG, "Horovod has ended")
    assert [bench.ended(launch).ok for launch in launches] == [True, True]
    assert steps(bench, launches[0]) == [(1, 2), (2, 2), (3, 2)]


def test_processes_come_and_go(bench: Any, tmp_path: Path) -> None:
    until = tmp_path / "over"
    options = f"--steps 1000000 --pace 0.05 --until {until}"
    first, second = (worker(bench, rank, Workers(1, 1, 2), options) for rank in (0, 1))
    executor = bench.executor()
    executor.start(first)
    trains_with(bench, first, 1)

    executor.start(second)
    bench.started(second)
    resize(bench, second, [0, 1])
    resize(bench, first, [0, 1])
    trains_with(bench, first, 2)

    for launch in (first, second):
        resize(bench, launch, [0])
    assert bench.ended(second).ok, "its placeholder has left"
    trains_with(bench, first, 1)

    until.touch()
    wait_until(lambda: bench.paths(first).exit.exists(), LONG, "Horovod has ended")
    assert bench.ended(first).ok
    done = steps(bench, first)
    assert [step for step, _ in done] == list(range(1, len(done) + 1)), "no step is lost, none is done again"
    sizes = [size for _, size in done]
    assert [size for at, size in enumerate(sizes) if at == 0 or size != sizes[at - 1]] == [1, 2, 1]
