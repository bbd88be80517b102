"""A variational autoencoder of handwritten digits: 64 pixels through a distribution over 6 numbers and back."""

import argparse
import time

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from schedulearn.job.torch import Trainer


class Vae(nn.Module):
    def __init__(self, pixels: int = 64, hidden: int = 96, latent: int = 6) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.decode = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))

    def forward(self, images: Tensor) -> Tensor:
        """The loss of each image: how badly it is drawn again, and how far its code is from a standard normal one."""
        mean, log_variance = self.encode(images).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        drawn = binary_cross_entropy_with_logits(self.decode(code), images, reduction="none").sum(dim=1)
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(dim=1)
        return drawn + divergence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.002, help="learning rate")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for a step, at least")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    images = torch.tensor(load_digits().data / 16.0, dtype=torch.float32)
    model = Vae()
    trainer = Trainer(model, torch.optim.Adam(model.parameters(), args.rate))
    for batch in trainer.batches(len(images), args.batch, args.epochs, seed=args.seed):
        loss = trainer.step(model(images[batch]).mean())
        if loss is not None and trainer.rank == 0 and trainer.steps % 10 == 0:
            print(f"step {trainer.steps}  loss: {loss:.4f}", flush=True)
        time.sleep(args.pace)


if __name__ == "__main__":
    main()
