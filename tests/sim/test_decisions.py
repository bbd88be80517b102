"""Every preset decides as it is written down: `python -m bench decisions --write` makes the record anew."""

import json

import pytest
from bench.decisions import CASES, RECORD, TRACES, Case, decided

_SHORT = ("gpus", "cores")  # the others take more than a few seconds


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.name, marks=() if c.name in _SHORT else pytest.mark.slow) for c in CASES]
)
def test_as_recorded(case: Case) -> None:
    if not case.is_quick and not (TRACES / case.trace).exists():
        pytest.skip(f"there is no {TRACES / case.trace}")
    known = json.loads(RECORD.read_text())[case.name]
    assert dict(decided(case)) == known
