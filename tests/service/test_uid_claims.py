"""Two services of one machine whose jobs would have the same uids are told so."""

from pathlib import Path

import pytest

from schedulearn.service.common.uid_claims import claimed


@pytest.mark.parametrize(
    ("first", "last", "clash"), [(70_000, 99_999, True), (99_999, 120_000, True), (100_000, 120_000, False)]
)
def test_who_else_gives_them_out(tmp_path: Path, first: int, last: int, clash: bool) -> None:
    with claimed(70_000, 99_999, Path("/srv/a"), tmp_path) as told:
        assert told == []
        with claimed(first, last, Path("/srv/b"), tmp_path) as told:
            assert [("The service of /srv/a on this machine" in line) for line in told] == [True] * clash
    with claimed(first, last, Path("/srv/b"), tmp_path) as told:
        assert told == [], "it has ended"


def test_one_that_is_started_again_is_no_other(tmp_path: Path) -> None:
    for _ in range(2):
        with claimed(70_000, 99_999, Path("/srv/a"), tmp_path) as told:
            assert told == []


def test_a_machine_that_has_no_such_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with claimed(70_000, 99_999, Path("/srv/a"), tmp_path / "run" / "uids") as told:
        assert told == []
