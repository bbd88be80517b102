"""One small training, as a live experiment runs it: a real network that learns something, for so many steps.

It is a plain job: it reports its loss, saves when it is asked to stop, and goes on from there in its next attempt. How
fast it learns follows from the number of steps, so that its loss falls in the same parts of its life, long or short.

    python train.py --network gru --steps 2000
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from schedulearn import job

SAMPLES, BATCH = 2048, 256
STRIPS, WIDTH, CLASSES = 5, 80, 10  # an image is a few strips of pixels, of one of the kinds
FILE = "training.pt"  # in a checkpoint
FASTEST = 0.01  # a learning rate that no network here is thrown off by


class Autoencoder(nn.Module):
    """A variational autoencoder: its loss is what it cannot rebuild, and how far its code is from plain noise."""

    def __init__(self, hidden: int = 512, code: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(STRIPS * WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, hidden)
        )
        self.code = nn.Linear(hidden, 2 * code)
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, STRIPS * WIDTH))

    def forward(self, images: Tensor, _: Tensor) -> Tensor:
        mean, spread = self.code(self.encoder(images).relu()).chunk(2, dim=1)
        rebuilt = self.decoder(mean + torch.randn_like(mean) * (spread / 2).exp())
        lost = binary_cross_entropy_with_logits(rebuilt, images.flatten(1), reduction="sum")
        apart: Tensor = (mean.square() + spread.exp() - 1 - spread).sum() / 2
        return (lost + apart) / len(images)


class Perceptron(nn.Module):
    """Tells which kind an image is of."""

    def __init__(self, hidden: int = 768) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Flatten(), nn.Linear(STRIPS * WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()),
            nn.Linear(hidden, CLASSES),
        )

    def forward(self, images: Tensor, kinds: Tensor) -> Tensor:
        return cross_entropy(self.layers(images), kinds)


class Reader(nn.Module):
    """Does the same strip by strip."""

    def __init__(self, cells: Callable[..., nn.Module], hidden: int, *, both_ways: bool = False) -> None:
        super().__init__()
        self.cells = cells(WIDTH, hidden, batch_first=True, bidirectional=both_ways)
        self.out = nn.Linear(hidden * (2 if both_ways else 1), CLASSES)

    def forward(self, images: Tensor, kinds: Tensor) -> Tensor:
        states, _ = self.cells(images)
        return cross_entropy(self.out(states.mean(dim=1)), kinds)


class Adam:
    """torch's own would do, but takes twice as long to load as torch itself: much, where a training takes seconds."""

    def __init__(self, weights: list[Tensor], rate: float) -> None:
        self.weights, self.rate, self.steps = weights, rate, 0
        self.means, self.squares = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        first, second = 1 - 0.9**self.steps, 1 - 0.999**self.steps
        for weight, mean, square in zip(self.weights, self.means, self.squares, strict=True):
            slope, weight.grad = weight.grad, None
            mean.lerp_(slope, 0.1)
            square.mul_(0.999).addcmul_(slope, slope, value=0.001)
            weight.addcdiv_(mean, (square / second).sqrt_().add_(1e-8), value=-self.rate / first)


# What is trained, and how far it gets: the learning rate times the number of steps. A fifth of its life should take
# away about 65 % (vae), 98 % (birnn) and 90 % (the others) of what its loss will lose.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], float]] = {
    "vae": (Autoencoder, 0.12),
    "mlp": (Perceptron, 0.028),
    "gru": (lambda: Reader(nn.GRU, 192), 0.19),
    "lstm": (lambda: Reader(nn.LSTM, 192), 0.16),
    "birnn": (lambda: Reader(nn.RNN, 192, both_ways=True), 0.23),
}


def make_data(seed: int) -> tuple[Tensor, Tensor]:
    """Images that are blurred variations of one pattern for each kind, and their kinds."""
    random = torch.Generator().manual_seed(seed)
    patterns = torch.rand(CLASSES, STRIPS, WIDTH, generator=random)
    kinds = torch.randint(CLASSES, (SAMPLES,), generator=random)
    images = (patterns[kinds] + 0.4 * torch.randn(SAMPLES, STRIPS, WIDTH, generator=random)).clamp(0, 1)
    return images, kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=NETWORKS, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--wait", type=float, default=0.0, help="seconds for the input of each step: no CPU is used")
    parser.add_argument("--reports", type=int, default=250, help="in its life")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    make, reach = NETWORKS[args.network]
    model = make()
    train(model, Adam(list(model.parameters()), min(FASTEST, reach / args.steps)), args)


def train(model: nn.Module, optimizer: Adam, args: argparse.Namespace) -> None:
    job.init()
    if folder := job.restore(default=None):
        load(folder, model, optimizer)
    images, kinds = make_data(args.seed)
    every = max(1, args.steps // args.reports)
    losses: list[float] = []
    while optimizer.steps < args.steps:
        begin = optimizer.steps * BATCH % SAMPLES
        loss = model(images[begin : begin + BATCH], kinds[begin : begin + BATCH])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if optimizer.steps % every == 0:
            tell(optimizer.steps, losses)
        time.sleep(args.wait)
        if job.step_boundary():
            job.save(lambda folder: store(folder, model, optimizer), step=optimizer.steps)
            job.leave()


def tell(step: int, losses: list[float]) -> None:
    """The mean since the last time."""
    loss = sum(losses) / len(losses)
    job.report(step=step, loss=loss)
    print(f"step {step}  loss: {loss:.4f}", flush=True)
    losses.clear()


def store(folder: Path, model: nn.Module, optimizer: Adam) -> None:
    state = {name: getattr(optimizer, name) for name in ("steps", "means", "squares")}
    torch.save({"model": model.state_dict(), **state}, folder / FILE)


def load(folder: Path, model: nn.Module, optimizer: Adam) -> None:
    state = torch.load(folder / FILE)
    model.load_state_dict(state.pop("model"))
    for name, value in state.items():
        setattr(optimizer, name, value)


if __name__ == "__main__":
    main()
