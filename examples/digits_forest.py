"""A random forest on handwritten digits that grows by a few trees in each epoch."""

import argparse
import time

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for an epoch, at least")
    parser.add_argument("--trees", type=int, default=4, help="added in each epoch")
    args = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.25, random_state=args.seed)
    forest = RandomForestClassifier(n_estimators=0, warm_start=True, min_samples_leaf=2, random_state=args.seed)

    for epoch in range(1, args.epochs + 1):
        started = time.monotonic()
        forest.n_estimators += args.trees
        forest.fit(train_x, train_y)
        loss = log_loss(test_y, forest.predict_proba(test_x))
        print(f"Epoch {epoch}: {forest.n_estimators} trees, Loss {loss:.4f}", flush=True)
        time.sleep(max(0.0, args.pace - (time.monotonic() - started)))
    print(f"right on {forest.score(test_x, test_y):.1%} of the test images")


if __name__ == "__main__":
    main()
