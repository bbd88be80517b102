"""What stands for the published models: a small network each, trained for as many steps as take as long."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulearn.lab.live.service import Place
from schedulearn.lab.traces.types import TraceJob

PROGRAM = Path(__file__).with_name("train.py")
NETWORKS: Mapping[str, str] = {
    "VAE": "vae",
    "VAE-T": "vae",
    "MNIST-P": "mlp",
    "MNIST-T": "mlp",
    "LSTM-CFC": "lstm",
    "LSTM-CRF": "lstm",
    "Bi-RNN": "birnn",
    "GRU": "gru",
}
_LEAST_CPUS = 0.01  # what a job leases, so that sharing alone is the question: the least that may be
_FEWEST = 20  # steps


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a network takes on this machine when it is alone."""

    start: float  # seconds until it trains: loading Python and torch
    step: float  # seconds


@contextmanager
def program_folder() -> Iterator[Path]:
    """A working folder with the program alone."""
    with tempfile.TemporaryDirectory(prefix="schedulearn-live-") as folder:
        shutil.copy(PROGRAM, folder)
        yield Path(folder)


def steps_of(trace: TraceJob, pace: Pace, cores: float) -> int:
    """As many as fill the time that it takes when alone, after its start."""
    return max(_FEWEST, round((trace.duration - pace.start) / (pace.step + wait_of(trace, pace, cores))))


def wait_of(trace: TraceJob, pace: Pace, cores: float) -> float:
    """Seconds for the input of each step, of a job that keeps only a part of the machine busy."""
    part = trace.cpus / cores
    return pace.step * (1 / part - 1)


def training(network: str, steps: int, place: Place, cores: float, wait: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """The spec of a job. Threads that wait for one another sleep: where several jobs share the cores, spinning costs
    many times what the training itself does."""
    words = ["--network", network, "--steps", str(steps), "--wait", f"{wait:.6f}", "--seed", str(seed)]
    return {
        "name": network,
        "command": [place.python, "train.py", *words],
        "resources": {"cpus": f"{_LEAST_CPUS}..{cores}"},
        "env": {"OMP_WAIT_POLICY": "PASSIVE"},
        "preemptible": True,
        **({"image": place.image} if place.image else {}),
    }
