"""A small convolutional network in Keras. `fit` of Schedulearn stops when asked, and goes on at the very batch."""

import argparse

import keras
from sklearn.datasets import load_digits

from schedulearn.job.keras import fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()

    keras.utils.set_random_seed(args.seed)
    digits = load_digits()
    images, labels = digits.images[..., None] / 16.0, digits.target
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    fit(model, images, labels, batch_size=args.batch, epochs=args.epochs, seed=args.seed, verbose=2)


if __name__ == "__main__":
    main()
