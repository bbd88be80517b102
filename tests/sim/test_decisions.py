"""Every preset decides as it is written down: `python -m bench decisions --write` makes the record anew."""

import json

import pytest
from bench.decisions import CASES, RECORD, TRACES, Case, decided


def _mark(case: Case) -> pytest.MarkDecorator:
    return pytest.mark.slow if case.is_quick else pytest.mark.long  # traces take minutes


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=_mark(c)) for c in CASES])
def test_as_recorded(case: Case) -> None:
    if not case.is_quick and not (TRACES / case.trace).exists():
        pytest.skip(f"there is no {TRACES / case.trace}")
    known = json.loads(RECORD.read_text())[case.name]
    assert dict(decided(case)) == known
