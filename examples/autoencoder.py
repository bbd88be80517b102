"""An autoencoder of handwritten digits in plain numpy: 64 pixels through 8 numbers and back, trained with Adam."""

import argparse
import time
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Array = NDArray[np.float64]
SIZES = (64, 32, 8, 32, 64)


class Autoencoder:
    """Layers with tanh between them; the last one is linear."""

    def __init__(self, random: np.random.Generator) -> None:
        self.parameters: list[Array] = []
        for inputs, outputs in pairwise(SIZES):
            self.parameters += [random.normal(0, 1 / np.sqrt(inputs), (inputs, outputs)), np.zeros(outputs)]
        self.means = [np.zeros_like(p) for p in self.parameters]
        self.squares = [np.zeros_like(p) for p in self.parameters]
        self.steps = 0

    def forward(self, x: Array) -> list[Array]:
        """The input and what each layer makes of it."""
        values = [x]
        layers = len(self.parameters) // 2
        for i in range(layers):
            x = x @ self.parameters[2 * i] + self.parameters[2 * i + 1]
            if i < layers - 1:
                x = np.tanh(x)
            values.append(x)
        return values

    def train(self, x: Array, rate: float) -> None:
        values = self.forward(x)
        error = 2 * (values[-1] - x) / x.size
        gradients: list[Array] = []
        for i in reversed(range(len(self.parameters) // 2)):
            gradients = [values[i].T @ error, error.sum(axis=0), *gradients]
            error = (error @ self.parameters[2 * i].T) * (1 - values[i] ** 2)
        self._adam(gradients, rate)

    def _adam(self, gradients: list[Array], rate: float) -> None:
        self.steps += 1
        scale = rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for parameter, gradient, mean, square in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            parameter -= scale * mean / (np.sqrt(square) + 1e-8)

    def loss(self, x: Array) -> float:
        return float(np.mean((self.forward(x)[-1] - x) ** 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for an epoch, at least")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.001, help="learning rate")
    args = parser.parse_args()

    random = np.random.default_rng(args.seed)
    images = load_digits().data / 16.0
    random.shuffle(images)
    train, test = images[300:], images[:300]
    model = Autoencoder(random)

    for epoch in range(1, args.epochs + 1):
        started = time.monotonic()
        order = random.permutation(len(train))
        for start in range(0, len(train), args.batch):
            model.train(train[order[start : start + args.batch]], args.rate)
        print(f"epoch={epoch} loss={model.loss(test):.5f}", flush=True)
        time.sleep(max(0.0, args.pace - (time.monotonic() - started)))


if __name__ == "__main__":
    main()
