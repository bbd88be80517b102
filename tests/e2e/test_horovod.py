"""A Keras model under real Horovod, with 1, 2 and again 1 process, without a restart."""

import os
import re
from pathlib import Path

import pytest

from schedulearn.client import Client
from support.jobs import ended, output, spec, submit
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


def steps(client: Client, job: int) -> list[tuple[int, int]]:
    """Step and number of processes, as far as it has come."""
    return [(int(step), int(size)) for step, size, _ in STEP.findall(output(client, job).decode())]


def trains_with(client: Client, job: int, size: int) -> None:
    wait_until(lambda: [now for _, now in steps(client, job)[-3:]] == [size] * 3, LONG, f"training with {size}")


def test_processes_come_and_go(client: Client, tmp_path: Path) -> None:
    until = tmp_path / "over"
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = f"python {EXAMPLE} --steps 1000000 --pace 0.05 --until {until}"
    job = submit(client, spec(command, launcher="horovod", workers="1..2", env=env, resources={"cpus": 0.9}))
    trains_with(client, job, 1)
    client.update(job, workers="2..3")
    trains_with(client, job, 2)
    client.update(job, workers=1)
    trains_with(client, job, 1)
    placeholder = client.attempts(job)[0]["workers"][1]
    assert placeholder["left_at"]
    until.touch()
    done = ended(client, job)
    assert (done["state"], done["attempt"], done["resizes"]) == ("succeeded", 1, 2)
    found = steps(client, job)
    assert [step for step, _ in found] == list(range(1, len(found) + 1)), "no step is lost, none is done again"
    sizes = [size for _, size in found]
    assert [size for at, size in enumerate(sizes) if at == 0 or size != sizes[at - 1]] == [1, 2, 1]
