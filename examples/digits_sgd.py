"""A linear classifier of handwritten digits, trained by stochastic gradient descent."""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for an epoch, at least")
    parser.add_argument("--rate", type=float, default=0.0005, help="learning rate")
    args = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(images / 16.0, labels, test_size=0.25, random_state=args.seed)
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=args.rate, random_state=args.seed)
    random = np.random.default_rng(args.seed)
    classes = np.unique(labels)

    for epoch in range(1, args.epochs + 1):
        started = time.monotonic()
        order = random.permutation(len(train_x))
        model.partial_fit(train_x[order], train_y[order], classes=classes)
        loss = log_loss(test_y, model.predict_proba(test_x), labels=classes)
        accuracy = model.score(test_x, test_y)
        print(f"epoch {epoch}/{args.epochs}  loss: {loss:.4f}  accuracy: {accuracy:.3f}", flush=True)
        time.sleep(max(0.0, args.pace - (time.monotonic() - started)))


if __name__ == "__main__":
    main()
