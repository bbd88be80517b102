"""A bidirectional RNN that reads a handwritten digit row by row, from above and from below."""

import argparse
import time

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from schedulearn.job.torch import Trainer


class Reader(nn.Module):
    def __init__(self, width: int = 8, hidden: int = 32) -> None:
        super().__init__()
        self.rnn = nn.RNN(width, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, 10)

    def forward(self, images: Tensor) -> Tensor:
        _, last = self.rnn(images)
        answer: Tensor = self.out(torch.cat((last[0], last[1]), dim=1))
        return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.003, help="learning rate")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for a step, at least")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    digits = load_digits()
    images, labels = torch.tensor(digits.images / 16.0, dtype=torch.float32), torch.tensor(digits.target)
    model = Reader()
    trainer = Trainer(model, torch.optim.Adam(model.parameters(), args.rate))
    for batch in trainer.batches(len(images), args.batch, args.epochs, seed=args.seed):
        loss = trainer.step(cross_entropy(model(images[batch]), labels[batch]))
        if loss is not None and trainer.rank == 0 and trainer.steps % 10 == 0:
            print(f"step {trainer.steps}  loss: {loss:.4f}", flush=True)
        time.sleep(args.pace)


if __name__ == "__main__":
    main()
