"""A Keras model trained by elastic Horovod: processes come and go, and training goes on from memory.

Run it with `launcher: horovod` and a range of workers, such as 1..4. The data is made up: points on a noisy plane.
"""

import argparse
import time
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64, help="samples of a step, all processes together")
    parser.add_argument("--pace", type=float, default=0.0, help="the least number of seconds for a step")
    parser.add_argument("--until", type=Path, help="end when this file is there, whatever the number of steps")
    return parser.parse_args()


def main(asked: argparse.Namespace) -> None:
    hvd.init()
    tf.random.set_seed(0)
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, "relu", input_shape=(8,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.legacy.SGD(0.02)
    optimizer.iterations  # noqa: B018 - made now, so that a newcomer has the same variables to receive
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0)
    plane = np.linspace(-1, 1, 8, dtype=np.float32)

    def done() -> bool:
        """All processes must agree, so that none waits for one that has ended."""
        mine = state.step >= asked.steps or (asked.until is not None and asked.until.exists())
        return bool(hvd.allreduce(tf.constant(float(mine))) > 0)

    @hvd.elastic.run
    def train(state):
        while not done():
            began = time.monotonic()
            rng = np.random.default_rng((state.step, hvd.rank()))
            points = rng.normal(size=(asked.batch // hvd.size(), 8)).astype(np.float32)
            with tf.GradientTape() as tape:
                wrong = model(points)[:, 0] - points @ plane
                loss = tf.reduce_mean(wrong * wrong)
            gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            state.step += 1
            if hvd.rank() == 0:
                print(f"step {state.step} of {hvd.size()} processes, loss={float(loss):.4f}", flush=True)
            time.sleep(max(0.0, asked.pace - (time.monotonic() - began)))
            state.commit()  # here processes come and go

    train(state)


if __name__ == "__main__":
    main(arguments())
