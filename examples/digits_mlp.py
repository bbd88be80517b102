"""A multi-layer perceptron in plain numpy that survives being stopped.

It saves a checkpoint after every epoch and when it is told to stop (SIGTERM). Started again, it goes on at the very
batch where it stopped, and ends with the same weights as if nothing had happened. It also runs without Schedulearn.
"""

import argparse
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, SupportsFloat, SupportsInt

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

try:
    from schedulearn.job import report
except ImportError:

    def report(step: SupportsInt | None = None, **metrics: SupportsFloat) -> None:
        """Without Schedulearn there is nobody to report to."""


Array = NDArray[np.float64]
MOMENTUM = 0.9
stop = threading.Event()


@dataclass
class Training:
    """All that a checkpoint holds."""

    weights: list[Array]
    speeds: list[Array]
    epoch: int = 0
    batch: int = 0  # how many batches of this epoch are done
    losses: list[float] = field(default_factory=list)  # of those batches

    def save(self, file: Path) -> None:
        """A checkpoint is there as a whole or not at all: it is written beside the old one, then takes its place."""
        arrays: dict[str, Any] = {f"weight{i}": w for i, w in enumerate(self.weights)}
        arrays |= {f"speed{i}": s for i, s in enumerate(self.speeds)}
        temporary = file.with_suffix(".tmp.npz")
        np.savez(temporary, epoch=self.epoch, batch=self.batch, losses=self.losses, **arrays)
        os.replace(temporary, file)  # noqa: PTH105 # the usual way to say it

    @classmethod
    def load(cls, file: Path) -> "Training":
        with np.load(file) as saved:
            count = sum(name.startswith("weight") for name in saved.files)
            return cls(
                [saved[f"weight{i}"] for i in range(count)],
                [saved[f"speed{i}"] for i in range(count)],
                int(saved["epoch"]),
                int(saved["batch"]),
                saved["losses"].tolist(),
            )

    @classmethod
    def new(cls, random: np.random.Generator, hidden: int) -> "Training":
        sizes = (64, hidden, hidden, 10)
        weights: list[Array] = []
        for inputs, outputs in pairwise(sizes):
            weights += [random.normal(0, np.sqrt(2 / inputs), (inputs, outputs)), np.zeros(outputs)]
        return cls(weights, [np.zeros_like(w) for w in weights])


def forward(weights: list[Array], x: Array) -> list[Array]:
    """The input, what each hidden layer makes of it, and the probabilities of the ten digits."""
    values = [x]
    for i in range(0, len(weights) - 2, 2):
        values.append(np.maximum(0, values[-1] @ weights[i] + weights[i + 1]))
    scores = values[-1] @ weights[-2] + weights[-1]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return [*values, powers / powers.sum(axis=1, keepdims=True)]


def train_batch(training: Training, x: Array, labels: NDArray[np.int64], rate: float) -> float:
    """One step of gradient descent with momentum; the loss before it."""
    values = forward(training.weights, x)
    chances = values[-1][np.arange(len(x)), labels]
    error = values[-1].copy()
    error[np.arange(len(x)), labels] -= 1
    error /= len(x)
    for i in reversed(range(0, len(training.weights), 2)):
        inputs = values[i // 2]
        gradients = inputs.T @ error, error.sum(axis=0)
        error = (error @ training.weights[i].T) * (inputs > 0)
        for offset, gradient in enumerate(gradients):
            training.speeds[i + offset] = MOMENTUM * training.speeds[i + offset] - rate * gradient
            training.weights[i + offset] += training.speeds[i + offset]
    return float(-np.log(np.maximum(chances, 1e-12)).mean())


def train_epoch(training: Training, x: Array, labels: NDArray[np.int64], args: argparse.Namespace) -> None:
    """The rest of the present epoch, or as much of it as there is time for."""
    # The order follows from the seed and the epoch alone, so that a restart finds the same.
    order = np.random.default_rng([args.seed, training.epoch]).permutation(len(x))
    batches = np.array_split(order, len(x) // args.batch)
    for batch in batches[training.batch :]:
        if stop.is_set():
            return
        training.losses.append(train_batch(training, x[batch], labels[batch], args.rate))
        training.batch += 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for an epoch, at least")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=96, help="neurons in each hidden layer")
    parser.add_argument("--rate", type=float, default=0.01, help="learning rate")
    folder = os.environ.get("SCHEDULEARN_CHECKPOINT_DIR")
    parser.add_argument("--checkpoints", type=Path, default=folder, help="folder to save in and to go on from")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    digits = load_digits()
    images, labels = digits.data / 16.0, digits.target
    train_x, train_y, test_x, test_y = images[300:], labels[300:], images[:300], labels[:300]

    file = args.checkpoints / f"digits_mlp-{args.seed}.npz" if args.checkpoints else None
    if file and file.exists():
        training = Training.load(file)
        print(f"going on at epoch {training.epoch + 1}, batch {training.batch}", flush=True)
    else:
        training = Training.new(np.random.default_rng(args.seed), args.hidden)

    while training.epoch < args.epochs:
        started = time.monotonic()
        train_epoch(training, train_x, train_y, args)
        if not stop.is_set():
            loss = float(np.mean(training.losses))
            accuracy = float((forward(training.weights, test_x)[-1].argmax(axis=1) == test_y).mean())
            training.epoch, training.batch, training.losses = training.epoch + 1, 0, []
            print(f"epoch {training.epoch}/{args.epochs} loss: {loss:.5f} accuracy: {accuracy:.3f}", flush=True)
            report(step=training.epoch, loss=loss, accuracy=accuracy)
        if file:
            training.save(file)
        if stop.wait(args.pace - (time.monotonic() - started)):
            print(f"stopped at epoch {training.epoch + 1}, batch {training.batch}", flush=True)
            return 128 + signal.SIGTERM
    return 0


if __name__ == "__main__":
    sys.exit(main())
