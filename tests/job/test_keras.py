"""Keras: a training that is stopped and killed ends with the weights of one that is not."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

Run = Callable[..., Any]
BACKEND = os.environ.get("KERAS_BACKEND", "torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(find_spec, ("keras", BACKEND))), reason=f"needs Keras with {BACKEND}"),
]

PROGRAM = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")  # those of Keras are not ours
if os.environ["KERAS_BACKEND"] != "tensorflow":
    sys.modules["tensorflow"] = None  # Keras would load it beside any backend, which takes long
import keras, numpy as np
from schedulearn import job
from schedulearn.job.keras import Schedulearn, fit

random = np.random.default_rng(0)
x, y = random.normal(size=(50, 6)).astype("float32"), random.normal(size=(50, 1)).astype("float32")
STEPS, EPOCHS = 7, 4  # of 8 samples, the last of 2

def build():
    keras.utils.set_random_seed(3)
    layers = [keras.Input((6,)), keras.layers.Dense(5, "tanh"), keras.layers.Dropout(0.3), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    return model

class Hit(keras.callbacks.Callback):
    '''Sends a signal to this process after so many batches.'''
    def __init__(self, number, after):
        super().__init__()
        self.number, self.left = number, after
    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), self.number)

def ours(*callbacks, **options):
    model = build()
    fit(model, x, y, batch_size=8, epochs=EPOCHS, callbacks=callbacks, verbose=0, **options)
    return model

def plain(*callbacks, **options):
    model = build()
    saver = Schedulearn(**options)
    model.fit(x, y, batch_size=8, epochs=EPOCHS, callbacks=[*callbacks, saver], verbose=0)
    return model

def weights(model):
    return np.concatenate([w.ravel() for w in model.get_weights()] + [[int(model.optimizer.iterations)]])

def stopped(train, after, **options):
    '''With SIGTERM: its status, and the step that was saved.'''
    try:
        train(Hit(signal.SIGTERM, after), **options)
    except SystemExit as end:
        job.stopping._asked = False  # as it is in the process of the next attempt
        return end.code, job.latest().step

def killed(train, after, **options):
    child = os.fork()
    if not child:
        train(Hit(signal.SIGKILL, after), **options)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), job.latest().step

def in_folder(name):
    os.environ["SCHEDULEARN_CHECKPOINT_DIR"] = os.path.join(base, name)

base = os.environ["SCHEDULEARN_CHECKPOINT_DIR"]

in_folder("straight")
straight = weights(ours())
assert straight[-1] == STEPS * EPOCHS

in_folder("disturbed")
print("within an epoch", *stopped(ours, 10))
print("at the end of one", *stopped(ours, 4))
print("killed", *killed(ours, 9, save_every=0))
print("after the last batch", *stopped(ours, 6))
print("same weights", np.array_equal(straight, weights(ours())))
print("nothing left to do", np.array_equal(straight, weights(ours())))

in_folder("plain")
straight = weights(plain())
in_folder("plain stopped")
print("plain, at the end of an epoch", *stopped(plain, 14))
print("same weights", np.array_equal(straight, weights(plain())))
in_folder("plain killed")
print("plain, killed", *killed(plain, 18, save_every=None))
print("same weights", np.array_equal(straight, weights(plain())))
in_folder("plain within")
print("plain, within an epoch", *stopped(plain, 10))
print("steps", weights(plain())[-1])
"""


def test_a_training_that_is_stopped_and_killed_ends_with_the_same_weights(run: Run, service: Any) -> None:
    program = run(PROGRAM, KERAS_BACKEND=BACKEND, OMP_NUM_THREADS="1")
    assert list(iter(program.line, "")) == [
        "within an epoch 143 10",
        "at the end of one 143 14",
        "killed -9 22",
        "after the last batch 143 28",
        "same weights True",
        "nothing left to do True",
        "plain, at the end of an epoch 143 14",
        "same weights True",
        "plain, killed -9 14",
        "same weights True",
        "plain, within an epoch 143 10",
        "steps 31.0",  # the epoch that was interrupted is begun again
    ]
    program.end()
    assert service.steps[:28] == list(range(1, 29))
    assert set(service.points[0]["values"]) == {"loss"}
