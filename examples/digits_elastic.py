"""A multi-layer perceptron in torch, trained by as many workers as there happen to be.

Workers may come, go or be lost at any step; the curve is that of one worker. It goes on from its checkpoint after a
stop. It also runs without Schedulearn, alone.
"""

import argparse
import time

import torch
from sklearn.datasets import load_digits

from schedulearn.job.torch import Trainer


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for an epoch, at least")
    parser.add_argument("--batch", type=int, default=32, help="samples in a step, of all workers together")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.manual_seed(args.seed)
    digits = load_digits()
    x = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    y = torch.tensor(digits.target)
    train_x, train_y, test_x, test_y = x[300:], y[300:], x[:300], y[:300]

    model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    steps = -(-len(train_x) // args.batch)
    losses: list[torch.Tensor] = []

    trainer = Trainer(model, optimizer)
    for indices in trainer.batches(len(train_x), args.batch, epochs=args.epochs, seed=args.seed):
        loss = torch.nn.functional.cross_entropy(model(train_x[indices]), train_y[indices])
        mean = trainer.step(loss)  # over the samples of all workers

        losses += [mean] if mean is not None else []
        if trainer.rank == 0 and trainer.steps % steps == 0:
            print(f"epoch {trainer.epoch + 1}/{args.epochs} loss: {torch.stack(losses).mean():.5f}", flush=True)
            losses.clear()
        time.sleep(args.pace / steps)

    if trainer.rank == 0:
        with torch.no_grad():
            accuracy = (model(test_x).argmax(dim=1) == test_y).float().mean()
        print(f"accuracy: {accuracy:.3f}")


if __name__ == "__main__":
    main()
