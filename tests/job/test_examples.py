"""The examples run, learn, and do what they promise."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import schedulearn
from support.elastic import PATIENCE, Program, Starter
from support.installed import needs
from support.waiting import wait_until

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
LOSS = re.compile(r"loss[:= ]+([0-9.]+)", re.IGNORECASE)
ALONE = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULEARN_")}
ALONE["PYTHONPATH"] = str(Path(schedulearn.__file__).parents[1])
ALONE["OMP_NUM_THREADS"] = "1"

needs("sklearn")


def example(name: str, *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env or ALONE, cwd=cwd, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(output: str) -> list[float]:
    return [float(text) for text in LOSS.findall(output)]


@pytest.mark.parametrize(
    "name", ["digits_sgd.py", "digits_forest.py", "autoencoder.py", "digits_mlp.py", "digits_elastic.py"]
)
def test_it_learns_and_prints_a_loss_for_every_epoch(name: str, tmp_path: Path) -> None:
    if name == "digits_elastic.py":
        needs("torch")
    found = losses(example(name, "--epochs", "4", "--seed", "3", cwd=tmp_path))
    assert len(found) == 4
    assert found[-1] < found[0]
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_gives_the_same_curve() -> None:
    first, again = (example("autoencoder.py", "--epochs", "2", "--seed", "5") for _ in range(2))
    assert first == again
    assert first != example("autoencoder.py", "--epochs", "2", "--seed", "6")


@pytest.fixture
def checkpoints(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "checkpoint").mkdir(exist_ok=True)
    return {**ALONE, "SCHEDULEARN_CHECKPOINT_DIR": str(tmp_path / "checkpoint")}


def test_the_perceptron_goes_on_after_a_restart_as_if_nothing_had_happened(checkpoints: dict[str, str]) -> None:
    straight = example("digits_mlp.py", "--epochs", "5").splitlines()
    example("digits_mlp.py", "--epochs", "3", env=checkpoints)
    rest = example("digits_mlp.py", "--epochs", "5", env=checkpoints).splitlines()
    assert rest[0] == "going on at epoch 4, batch 0"
    assert rest[1:] == straight[3:]


def stopped_after_the_first_epoch(env: dict[str, str], *arguments: str) -> tuple[int, int]:
    """Where it says that it stopped: epoch and batch."""
    command = [sys.executable, str(EXAMPLES / "digits_mlp.py"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        output = process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM
    stopped = re.search(r"stopped at epoch (\d+), batch (\d+)", output)
    assert stopped
    return int(stopped[1]), int(stopped[2])


def test_the_perceptron_saves_when_it_is_told_to_stop(checkpoints: dict[str, str]) -> None:
    epoch, batch = stopped_after_the_first_epoch(checkpoints, "--epochs", "1000000")
    last = str(epoch + 1)
    rest = example("digits_mlp.py", "--epochs", last, env=checkpoints).splitlines()
    assert rest[0] == f"going on at epoch {epoch}, batch {batch}"
    assert rest[1:] == example("digits_mlp.py", "--epochs", last).splitlines()[-2:]


def test_a_stop_does_not_wait_for_the_pace(checkpoints: dict[str, str]) -> None:
    assert stopped_after_the_first_epoch(checkpoints, "--epochs", "2", "--pace", "3600") == (2, 0)


def test_the_perceptron_reports_if_it_can(worker_env: dict[str, str], service: Any) -> None:
    Path(worker_env["SCHEDULEARN_CHECKPOINT_DIR"]).mkdir()
    example("digits_mlp.py", "--epochs", "3", env=worker_env)
    assert service.steps == [1, 2, 3]
    assert set(service.points[0]["values"]) == {"loss", "accuracy"}


# --- torch and Keras


def told_steps(output: str) -> list[tuple[int, float]]:
    return [(int(step), float(loss)) for step, loss in re.findall(r"step (\d+)  loss: ([0-9.]+)", output)]


class Runs:
    """The examples with torch, which is loaded once for all of them; each run has a folder of its own."""

    def __init__(self, starter: Starter, folder: Path) -> None:
        self._starter, self._folder = starter, folder
        self._count = 0

    def begin(self, name: str, *arguments: str, env: dict[str, str]) -> tuple[Program, Path]:
        self._count += 1
        output = self._folder / f"output-{self._count}"
        output.touch()
        return self._starter.start(EXAMPLES / name, *arguments, env=env, output=output), output

    def __call__(self, name: str, *arguments: str, env: dict[str, str] | None = None) -> str:
        """To its end."""
        program, output = self.begin(name, *arguments, env=env or ALONE)
        assert program.wait() == 0, output.read_text()
        return output.read_text()


@pytest.fixture
def runs(starter: Starter, tmp_path: Path) -> Runs:
    needs("torch")
    return Runs(starter, tmp_path)


@pytest.mark.parametrize("name", ["vae.py", "gru.py", "birnn.py"])
def test_stopped_and_started_again_it_learns_as_if_nothing_had_happened(
    name: str, runs: Runs, checkpoints: dict[str, str]
) -> None:
    env = {**checkpoints, "SCHEDULEARN_WORKER": "1.1.0"}
    program, output = runs.begin(name, "--epochs", "4", "--pace", "0.05", env=env)
    wait_until(lambda: "\n" in output.read_text() or program.poll() is not None, PATIENCE, "it has told a step")
    os.kill(program.pid, signal.SIGTERM)
    assert program.wait() == 128 + signal.SIGTERM, output.read_text()
    before = output.read_text()
    after = runs(name, "--epochs", "4", env={**env, "SCHEDULEARN_WORKER": "1.2.0"})
    told = told_steps(before) + told_steps(after)
    assert [step for step, _ in told] == [10 * count for count in range(1, len(told) + 1)]
    assert told[-1][1] < told[0][1]
    if name == "vae.py":  # it draws random numbers in every step: they go on where they stopped
        assert told == told_steps(runs(name, "--epochs", "4"))


def test_a_plain_script_goes_on_from_its_own_checkpoint(runs: Runs) -> None:
    first = losses(runs("plain_torch.py", "--epochs", "2"))
    second = losses(runs("plain_torch.py", "--epochs", "5"))
    assert (len(first), len(second)) == (2, 3)
    assert second[-1] < first[0]


def test_the_keras_example_learns() -> None:
    needs("tensorflow")
    command = [sys.executable, str(EXAMPLES / "keras_digits.py"), "--epochs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, env=ALONE, timeout=240)
    assert done.returncode == 0, done.stderr
    found = losses(done.stdout)
    assert len(found) == 3
    assert found[-1] < found[0]
