"""scikit-learn: what is learnt bit by bit survives being stopped and killed."""

from collections.abc import Callable
from typing import Any

import pytest

from support.installed import needs

needs("sklearn")
pytestmark = pytest.mark.slow  # to load it
Run = Callable[..., Any]

PROGRAM = """
import os, signal
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import SGDClassifier
from schedulearn import job
from schedulearn.job.sklearn import fit

x, y = load_digits(return_X_y=True)
x, y = x[:300] / 16, y[:300]
hit = None  # a signal, and in which step to send it to this process

class Hit:
    def partial_fit(self, *arguments, **options):
        self.step()
        return super().partial_fit(*arguments, **options)

    def fit(self, *arguments, **options):
        self.step()
        return super().fit(*arguments, **options)

    def step(self):
        global hit
        hit = hit and (hit[0], hit[1] - 1)
        if hit and not hit[1]:
            os.kill(os.getpid(), hit[0])

class Linear(Hit, SGDClassifier): pass
class Forest(Hit, RandomForestClassifier): pass

def linear():
    np.random.seed(5)  # the estimator draws from numpy's own generator
    return fit(Linear(loss="log_loss"), x, y, epochs=4, batch_size=80, seed=1, save_every=0).coef_

def forest():
    estimator = Forest(max_depth=4, warm_start=True, random_state=1)
    fit(estimator, x, y, epochs=9, grow={"n_estimators": 2}, save_every=0)
    assert len(estimator.estimators_) == 18
    return estimator.predict_proba(x)

def stopped(train, after):
    global hit
    hit = signal.SIGTERM, after
    try:
        train()
    except SystemExit as end:
        job.stopping._asked = False  # as it is in the process of the next attempt
        return end.code, job.latest().step

def killed(train, after):
    global hit
    hit = signal.SIGKILL, after
    child = os.fork()
    if not child:
        train()
        os._exit(0)
    hit = None
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), job.latest().step

base = os.environ["SCHEDULEARN_CHECKPOINT_DIR"]
for train in (linear, forest):
    os.environ["SCHEDULEARN_CHECKPOINT_DIR"] = f"{base}/{train.__name__} straight"
    straight = train()
    print(train.__name__, job.latest().step)
    os.environ["SCHEDULEARN_CHECKPOINT_DIR"] = f"{base}/{train.__name__}"
    print("stopped", *stopped(train, 5))
    print("killed", *killed(train, 3))
    print("same", np.array_equal(straight, train()), np.array_equal(straight, train()))
"""


def test_an_estimator_that_is_stopped_and_killed_learns_as_if_nothing_had_happened(run: Run, service: Any) -> None:
    program = run(PROGRAM, OMP_NUM_THREADS="1")
    disturbed = ["stopped 143 5", "killed -9 7", "same True True"]
    assert list(iter(program.line, "")) == ["linear 16", *disturbed, "forest 9", *disturbed]
    program.end()
    assert service.steps[:4] == [4, 8, 12, 16]
    assert set(service.points[0]["values"]) == {"score"}


@pytest.fixture
def estimators() -> Any:
    import sklearn.ensemble
    import sklearn.linear_model

    return sklearn.ensemble.RandomForestClassifier, sklearn.linear_model.SGDRegressor


@pytest.mark.parametrize(
    ("options", "grow", "problem"),
    [
        ({}, None, "estimator is a RandomForestClassifier; it must have partial_fit"),
        ({}, {"n_estimators": 1}, "without warm_start=True"),
        ({"warm_start": True}, {"trees": 1}, "grow names trees"),
    ],
)
def test_an_estimator_that_cannot_learn_bit_by_bit_is_refused(
    estimators: Any, options: dict[str, Any], grow: Any, problem: str
) -> None:
    from schedulearn.job.sklearn import fit

    with pytest.raises(ValueError, match=problem):
        fit(estimators[0](**options), [[1.0]], [1], epochs=1, grow=grow)


def test_lists_and_tables_and_regressors_are_taken(estimators: Any, tmp_path: Any) -> None:
    from schedulearn.job.sklearn import fit

    seen: list[float] = []
    x, y = [[float(i)] for i in range(10)], [2.0 * i for i in range(10)]
    learnt = fit(
        estimators[1](random_state=0),
        x,
        y,
        epochs=3,
        batch_size=3,
        measure=lambda found: seen.append(found.score(x, y)) or {},  # type: ignore[func-returns-value]
        folder=tmp_path,
        save_every=None,
    )
    assert len(seen) == 3
    assert learnt.t_ == 31
    assert sorted(path.name for path in tmp_path.iterdir()) == ["save-00000002", "save-00000003"]
