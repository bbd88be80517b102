"""Short jobs while the service is killed with -9 at random points: each ends exactly once."""

from pathlib import Path

from support.crash import crash_test


def test_every_job_ends_exactly_once_however_often_the_service_is_killed(tmp_path: Path) -> None:
    report = crash_test(tmp_path / "data", jobs=30, kills=6, seed=7)
    assert report.problems == []
    assert report.states == {"succeeded": 30}
