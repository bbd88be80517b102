"""A GRU that learns to add: sequences of numbers, two of them marked, and the sum of these two is asked for."""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from schedulearn.job.torch import Trainer


class Adder(nn.Module):
    def __init__(self, hidden: int = 48) -> None:
        super().__init__()
        self.gru = nn.GRU(2, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, sequences: Tensor) -> Tensor:
        states, _ = self.gru(sequences)
        answer: Tensor = self.out(states[:, -1]).squeeze(1)
        return answer


def make_data(count: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sequences of (number, mark) pairs, and the sum of the two marked numbers of each."""
    random = torch.Generator().manual_seed(seed)
    numbers = torch.rand(count, length, generator=random)
    marked = torch.rand(count, length, generator=random).topk(2, dim=1).indices
    marks = torch.zeros(count, length).scatter_(1, marked, 1.0)
    return torch.stack((numbers, marks), dim=2), (numbers * marks).sum(dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.005, help="learning rate")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for a step, at least")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    sequences, sums = make_data(2000, 12, args.seed)
    model = Adder()
    trainer = Trainer(model, torch.optim.Adam(model.parameters(), args.rate))
    for batch in trainer.batches(len(sequences), args.batch, args.epochs, seed=args.seed):
        loss = trainer.step(mse_loss(model(sequences[batch]), sums[batch]))
        if loss is not None and trainer.rank == 0 and trainer.steps % 10 == 0:
            print(f"step {trainer.steps}  loss: {loss:.4f}", flush=True)
        time.sleep(args.pace)


if __name__ == "__main__":
    main()
