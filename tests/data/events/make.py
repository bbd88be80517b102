"""Makes the event files of this folder anew, with the real writers: `python make.py` in an environment with
TensorFlow, torch and tensorboard.

They are kept because importing TensorFlow takes many seconds; a slow test writes a file with it while a job runs.
"""

import os
import shutil
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

HERE = Path(__file__).parent
STEPS = 12


def loss(step: int) -> float:
    return 2.0 / (1 + step)


def tf2(folder: Path) -> None:
    """`tf.summary`: scalars are tensors; beside them text, a histogram and a picture."""
    import tensorflow as tf

    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        tf.summary.text("notes", "loss: 9", step=0)
        tf.summary.image("sample", tf.zeros([1, 64, 64, 3]), step=0)
        for step in range(STEPS):
            tf.summary.scalar("train/loss", loss(step), step=step)
            tf.summary.scalar("lr", tf.constant(0.1, tf.float64), step=step)
            tf.summary.histogram("weights", tf.random.normal([50]), step=step)
    writer.close()


def torch(folder: Path) -> None:
    """`torch.utils.tensorboard`: `simple_value`, one folder, a tag for training and one for validation."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for step in range(STEPS):
            writer.add_scalar("Loss/train", loss(step), step * 100)
            writer.add_scalar("Loss/val", 1 + loss(step), step * 100)
            writer.add_scalar("Accuracy/train", step / 20, step * 100, new_style=True)


def keras(folder: Path) -> None:
    """The callback of Keras: one folder for training, one for validation, the same tags in both."""
    import keras
    import numpy as np

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", metrics=["accuracy"])
    x = np.linspace(0, 1, 40, dtype="float32").reshape(20, 2)
    board = keras.callbacks.TensorBoard(str(folder), write_graph=False, update_freq="batch")
    model.fit(x, x[:, :1], epochs=3, batch_size=5, validation_split=0.2, verbose=0, callbacks=[board])


if __name__ == "__main__":
    for make in (tf2, torch, keras):
        place = HERE / make.__name__
        shutil.rmtree(place, ignore_errors=True)
        make(place)
