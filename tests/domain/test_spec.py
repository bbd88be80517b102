"""A spec survives the store."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.ids import AttemptId, JobId, WorkerId
from schedulearn.core.domain.spec import (
    Batches,
    JobSpec,
    Launcher,
    Metric,
    Preemptible,
    Target,
    WorkerResources,
    Workers,
    spec_from_dict,
    spec_to_dict,
)

_specs = st.builds(
    JobSpec,
    name=st.text(max_size=20),
    command=st.one_of(st.text(), st.lists(st.text()).map(tuple)),
    env=st.dictionaries(st.text(), st.text()),
    launcher=st.sampled_from(Launcher),
    preemptible=st.sampled_from(Preemptible),
    workers=st.builds(Workers, st.integers(1, 3), st.integers(3, 5), st.integers(5, 9)),
    resources=st.builds(WorkerResources, gpus=st.integers(0, 8), memory=st.none() | st.integers(0, 10**12)),
    depends_on=st.lists(st.integers(1, 99).map(JobId)).map(tuple),
    metric=st.builds(Metric, name=st.text()),
    target=st.none() | st.builds(Target, value=st.floats(allow_nan=False)),
    batch=st.none() | st.builds(Batches, st.integers(1, 9), st.integers(9, 99)),
    deadline=st.none() | st.floats(0, 1e10),
)


def test_what_was_stored_with_a_field_that_is_gone_is_read() -> None:
    assert spec_from_dict({"name": "a", "command": "b", "batch_sizes": [32]}) == JobSpec("a", "b")


@given(_specs)
def test_to_json_and_back(spec: JobSpec) -> None:
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


def test_ids_read_back() -> None:
    worker = WorkerId(JobId(17), 2, 0)
    assert str(worker) == "17.2.0"
    assert WorkerId.parse("17.2.0") == worker
    assert AttemptId.parse("17.2") == worker.of


@pytest.mark.parametrize(
    ("had", "number", "has"),
    [
        ((1, 1, 4), 2, (1, 2, 2)),  # the least stays: one that is lost is only missed
        ((1, 2, 2), 4, (1, 4, 4)),
        ((3, 3, 6), 2, (2, 2, 2)),
        ((2, 2, 2), 3, (3, 3, 3)),  # of a fixed number another one
    ],
)
def test_another_number_of_workers(had: tuple[int, int, int], number: int, has: tuple[int, int, int]) -> None:
    assert Workers(*had).wanting(number) == Workers(*has)


@pytest.mark.parametrize(("workers", "words"), [((2, 2, 2), "2"), ((1, 1, 4), "1..4"), ((1, 2, 4), "1..4, 2 wanted")])
def test_workers_in_words(workers: tuple[int, int, int], words: str) -> None:
    assert str(Workers(*workers)) == words
