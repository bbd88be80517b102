"""scikit-learn: estimators that learn bit by bit, with reports, saves, and an end when it is asked for.

from schedulearn.job.sklearn import fit

fit(SGDClassifier(loss="log_loss"), x, y, epochs=40, batch_size=64)                   # by partial_fit
fit(RandomForestClassifier(warm_start=True), x, y, epochs=25, grow={"n_estimators": 4})   # four trees in an epoch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from schedulearn.job.checkpoint import restore, save
from schedulearn.job.data import Plan, at_least
from schedulearn.job.pace import Pace
from schedulearn.job.randomness import random_state, set_random_state
from schedulearn.job.reporter import report
from schedulearn.job.stopping import init, leave, step_boundary


def fit(
    estimator: Any,
    x: Any,
    y: Any = None,
    *,
    epochs: int,
    batch_size: int | None = None,
    seed: int = 0,
    classes: Any = None,
    grow: Mapping[str, int] | None = None,
    measure: Callable[[Any], Mapping[str, float]] | None = None,
    save_every: float | None = 60.0,
    folder: str | Path | None = None,
) -> Any:
    """Train the estimator, from where an earlier attempt stopped if there was one, and return it.

    An estimator with `partial_fit` gets batches of `batch_size` (None: all samples at once) in an order that follows
    from `seed` and the epoch; a classifier needs all `classes`, by default those in `y`. One with `warm_start`, if
    `grow` is given, is fitted once in each epoch with these parameters raised by so much: `{"n_estimators": 4}`.

    After each epoch what `measure(estimator)` returns is reported; by default its `loss_` or its score on `x`. It is
    saved every `save_every` seconds (None: after each epoch), when it is asked to stop, and at the end. Outside of
    Schedulearn it is saved in `folder`, if one is given.
    """
    init()
    epochs = at_least(0, "epochs", epochs)
    if grow is None:
        lesson: _Batches | _Growth = _Batches(estimator, x, y, batch_size, seed, classes)
    else:
        lesson = _Growth(estimator, x, y, grow)
    course = _Course(estimator, lesson, save_every, folder)
    for step in range(course.restore(), epochs * lesson.per_epoch):
        lesson.step(step)
        if (step + 1) % lesson.per_epoch == 0:
            report(step=step + 1, **(measure or _default_measure(x, y))(estimator))
        course.boundary(step + 1)
    course.end()
    return estimator


class _Batches:
    """One step is one call of `partial_fit`."""

    def __init__(self, estimator: Any, x: Any, y: Any, batch_size: int | None, seed: int, classes: Any) -> None:
        if not hasattr(estimator, "partial_fit"):
            raise ValueError(f"estimator is a {type(estimator).__name__}; it must have partial_fit, or grow be given")
        samples = x.shape[0] if hasattr(x, "shape") else len(x)
        self._estimator, self._x, self._y = estimator, x, y
        self._plan = Plan(samples, samples if batch_size is None else batch_size, seed)
        self.per_epoch = self._plan.steps_per_epoch
        self._options = _classes(estimator, y, classes)

    def step(self, number: int) -> None:
        _, indices = self._plan.batch(number)
        x, y = _rows(self._x, indices), None if self._y is None else _rows(self._y, indices)
        self._estimator.partial_fit(x, y, **self._options)


class _Growth:
    """One step is one call of `fit` that goes on with what was learnt."""

    per_epoch = 1

    def __init__(self, estimator: Any, x: Any, y: Any, grow: Mapping[str, int]) -> None:
        parameters = estimator.get_params()
        if not parameters.get("warm_start"):
            raise ValueError(f"estimator is a {type(estimator).__name__} without warm_start=True, which grow needs")
        if unknown := set(grow) - set(parameters):
            raise ValueError(f"grow names {', '.join(sorted(unknown))}; the estimator has no such parameter")
        self._estimator, self._x, self._y, self._grow = estimator, x, y, grow

    def step(self, number: int) -> None:
        self._estimator.set_params(**{name: amount * (number + 1) for name, amount in self._grow.items()})
        self._estimator.fit(self._x, self._y)


class _Course:
    """Where the training is, and when it is saved."""

    def __init__(self, estimator: Any, lesson: _Batches | _Growth, every: float | None, folder: str | Path | None):
        self._estimator, self._per_epoch, self._folder = estimator, lesson.per_epoch, folder
        self._pace, self._each_epoch = Pace(every), every is None
        self._step = 0
        self._saved: int | None = None  # the step of the newest save

    def restore(self) -> int:
        """The step to go on with. The estimator that the caller has becomes the one that was saved."""
        state = restore(folder=self._folder)
        if state is not None:
            vars(self._estimator).clear()
            vars(self._estimator).update(state["estimator"])
            set_random_state(state["random"])
            self._step = self._saved = state["step"]
            self._pace.done()
        return self._step

    def boundary(self, step: int) -> None:
        self._step = step
        stop = step_boundary()
        if stop or self._pace.due() or (self._each_epoch and step % self._per_epoch == 0):
            self._save()
        if stop:
            leave()

    def end(self) -> None:
        if self._saved != self._step:
            self._save()

    def _save(self) -> None:
        state = {"estimator": vars(self._estimator), "random": random_state(), "step": self._step}
        save(state, self._step, folder=self._folder)
        self._saved = self._step
        self._pace.done()


def _classes(estimator: Any, y: Any, classes: Any) -> dict[str, Any]:
    """`classes` for those that need them: only classifiers do."""
    from sklearn.base import is_classifier
    from sklearn.utils.multiclass import unique_labels

    if not is_classifier(estimator):
        return {}
    return {"classes": unique_labels(y) if classes is None else classes}


def _rows(data: Any, indices: list[int]) -> Any:
    """Of an array, a sparse matrix, or a table of pandas."""
    if isinstance(data, list):
        return [data[index] for index in indices]
    return getattr(data, "iloc", data)[indices]


def _default_measure(x: Any, y: Any) -> Callable[[Any], dict[str, float]]:
    def measure(estimator: Any) -> dict[str, float]:
        loss = getattr(estimator, "loss_", None)
        return {"loss": loss} if isinstance(loss, float) else {"score": estimator.score(x, y)}

    return measure
