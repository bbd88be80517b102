"""Every preset decides as it is written down: `python -m bench decisions --write` makes the record anew."""

import json

import pytest
from bench.decisions import CASES, RECORD, TRACES, Case, decided

_SHORT = ("gpus", "cores")  # the other synthetic ones take more than a few seconds, and traces minutes


def _marks(case: Case) -> tuple[pytest.MarkDecorator, ...]:
    if not case.is_quick:
        return (pytest.mark.long,)
    return () if case.name in _SHORT else (pytest.mark.slow,)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=_marks(c)) for c in CASES])
def test_as_recorded(case: Case) -> None:
    if not case.is_quick and not (TRACES / case.trace).exists():
        pytest.skip(f"there is no {TRACES / case.trace}")
    known = json.loads(RECORD.read_text())[case.name]
    assert dict(decided(case)) == known
