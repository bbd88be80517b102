"""Keras 3, with any backend: a callback that reports, saves, restores, and stops when asked.

    from schedulearn.job.keras import fit

    fit(model, x, y, batch_size=32, epochs=10)          # instead of model.fit(x, y, ...)

`fit` goes on at the very batch where it was stopped. With data of another kind, give the callback to Keras' own `fit`:

    model.fit(dataset, epochs=10, callbacks=[Schedulearn()])
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from schedulearn.job.checkpoint import latest, save
from schedulearn.job.data import Plan, at_least
from schedulearn.job.pace import Pace
from schedulearn.job.randomness import random_state, set_random_state
from schedulearn.job.reporter import report
from schedulearn.job.stopping import init, leave, step_boundary

_WEIGHTS, _TRAINING = "model.weights.h5", "training.pickle"


def fit(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    batch_size: int = 32,
    epochs: int = 1,
    seed: int = 0,
    shuffle: bool = True,
    callbacks: Iterable[Any] = (),
    save_every: float | None = 60.0,
    report_every: int = 1,
    folder: str | Path | None = None,
    **options: Any,
) -> Any:
    """`model.fit` for arrays in memory that ends with the same weights however often it is stopped and started again.

    `x` and `y` are arrays, or lists or dictionaries of arrays. The order of the samples follows from `seed` and the
    epoch. `save_every`, `report_every` and `folder` are those of `Schedulearn`; what else Keras' `fit` takes may be
    given, too. An epoch that was interrupted is counted on from the batch where it is taken up.
    """
    data = _Batches(x, y, Plan(len(keras.tree.flatten(x)[0]), batch_size, seed, shuffle))
    ours = Schedulearn(save_every=save_every, report_every=report_every, folder=folder)
    ours.data = data
    # The data comes in the right order: Keras must not mix the batches once more.
    return model.fit(data, epochs=epochs, shuffle=False, callbacks=[*callbacks, ours], **options)


@dataclass
class _Position:
    step: int = 0  # batches that were trained in all
    epoch: int = 0  # where to go on
    ended: int | None = None  # the training was over, with that number of epochs asked for


class Schedulearn(keras.callbacks.Callback):  # type: ignore[misc]
    """Restores at the start, reports, saves, and when it is asked to stop, saves and ends the program.

    `save_every`: seconds between two saves, at the end of a batch; None: at the end of each epoch. `report_every`: so
    many batches are one report. `folder`: where to save outside of Schedulearn; without it nothing is saved there.

    A training that was stopped within an epoch begins this epoch again, with the weights that it had.
    """

    def __init__(
        self, *, save_every: float | None = 60.0, report_every: int = 1, folder: str | Path | None = None
    ) -> None:
        super().__init__()
        self.data: _Batches | None = None
        self._pace, self._each_epoch = Pace(save_every), save_every is None
        self._report_every = at_least(1, "report_every", report_every)
        self._folder = folder
        self._at = _Position()
        self._seen = 0  # batches of this epoch
        # With our own data: the generators at the end of an epoch. Backends draw from them when they begin the next
        # one, which must make no difference: after an interruption epochs begin elsewhere.
        self._random: dict[str, Any] | None = None

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        init()
        self._restore()
        if self._at.ended is None and (self._pace.due() or self._each_epoch):
            self._save()  # the first one early: from now on the job can be stopped without loss

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._at.epoch, self._seen = epoch, 0
        if self.data:
            self.data.first = self._at.step

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self._random is not None:
            set_random_state(self._random)
            self._random = None

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        # With steps_per_execution several batches are one call.
        self._at.step += batch + 1 - self._seen
        before, self._seen = self._seen, batch + 1
        if self._seen // self._report_every > before // self._report_every:
            report(step=self._at.step, **(logs or {}))
        last = self._seen == self.params["steps"]
        self._at.epoch += last
        if self.data:
            self._random = random_state() if last else None
            # After an interruption the last epoch is a part of one.
            self.model.stop_training |= self._at.step >= self.data.steps(self.params["epochs"])
        self._boundary(leaving=self.data is not None or not last)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        report(step=self._at.step, **{name: value for name, value in (logs or {}).items() if name.startswith("val_")})
        self._at.epoch, self._seen = epoch + 1, 0
        if self._each_epoch:
            self._save()
        self._boundary()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._at.ended = self.params["epochs"]
        self._save()
        self.model._initial_epoch = None  # a later fit begins at its own beginning

    def _boundary(self, leaving: bool = True) -> None:
        stop = step_boundary()
        if stop or self._pace.due():
            self._save()
        if stop and leaving:
            leave()

    def _save(self) -> None:
        save(self._write, self._at.step, folder=self._folder)
        self._pace.done()

    def _write(self, folder: Path) -> None:
        self.model.save_weights(folder / _WEIGHTS)
        seeds = [keras.ops.convert_to_numpy(seed) for seed in self._seeds()]
        with open(folder / _TRAINING, "wb") as file:
            pickle.dump((vars(self._at), self._random or random_state(), seeds), file)

    def _restore(self) -> None:
        saved = latest(folder=self._folder)
        if saved is None:
            return
        self.model.optimizer.build(self.model.trainable_variables)  # its variables are loaded, too
        self.model.load_weights(saved.folder / _WEIGHTS)
        with open(saved.folder / _TRAINING, "rb") as file:
            position, randomness, seeds = pickle.load(file)
        for seed, value in zip(self._seeds(), seeds):  # noqa: B905 # Python 3.9 has no `strict`
            seed.assign(value)
        set_random_state(randomness)
        self._random = randomness if self.data else None
        self._at = _Position(**position)
        # As Keras' own BackupAndRestore does it; there is no public way from within a callback.
        self.model._initial_epoch = self._epoch_to_begin_with(self.params["epochs"])

    def _seeds(self) -> list[Any]:
        """What layers such as dropout count their random numbers with: Keras does not save it with the weights."""
        weights = {id(weight) for weight in self.model.weights}
        return [variable for variable in self.model.variables if id(variable) not in weights]

    def _epoch_to_begin_with(self, epochs: int) -> int:
        if self._at.ended == epochs:
            return epochs
        self._at.ended = None  # more epochs are asked for than before
        return self._at.step // len(self.data) if self.data else self._at.epoch


class _Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches in the order of the plan. After an interruption an epoch of Keras begins at any step of the plan."""

    def __init__(self, x: Any, y: Any, plan: Plan) -> None:
        super().__init__()
        self._arrays, self._plan = (x,) if y is None else (x, y), plan
        self.first = 0  # the step of the plan with which the present epoch of Keras begins

    def __len__(self) -> int:
        return self._plan.steps_per_epoch

    def __getitem__(self, number: int) -> Any:
        _, indices = self._plan.batch(self.first + number)
        return keras.tree.map_structure(lambda array: array[indices], self._arrays)

    def steps(self, epochs: int) -> int:
        return epochs * len(self)
