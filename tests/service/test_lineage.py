"""A database and a data folder that do not belong together: no number means two jobs, and no files are lost."""

from pathlib import Path

import pytest

from schedulearn.executors.common.instance import instance_of, token_of
from schedulearn.service.common.config import DataFolder
from schedulearn.service.upkeep.lineage import OtherFolder, settle
from schedulearn.store import Store
from support.builders import spec


def submit(store: Store) -> int:
    return store.add_job(spec(), "ann", 1.0, "submitted by ann")


def files_of(folder: DataFolder, *jobs: int) -> None:
    for job in jobs:
        (folder.jobs / str(job) / "attempts").mkdir(parents=True)


def test_what_belongs_together_stays_as_it_is(store: Store, folder: DataFolder) -> None:
    settle(store, folder, shared=True, accept=False)
    files_of(folder, submit(store))
    name = instance_of(folder.root)
    settle(store, folder, shared=True, accept=False)
    assert (instance_of(folder.root), [path.name for path in folder.jobs.iterdir()]) == (name, ["1"])
    assert submit(store) == 2


def test_an_older_database_gives_out_no_number_again(store: Store, folder: DataFolder) -> None:
    settle(store, folder, shared=False, accept=False)
    submit(store)
    files_of(folder, 1, 2, 17)  # of jobs that were submitted after the backup was made
    settle(store, folder, shared=False, accept=False)
    assert submit(store) == 18
    assert sorted(path.name for path in folder.jobs.iterdir()) == ["1", "17", "2"]


def test_a_new_database_finds_nothing_of_earlier_jobs(store: Store, folder: DataFolder) -> None:
    files_of(folder, 1, 2)
    before = instance_of(folder.root)
    settle(store, folder, shared=False, accept=False)
    assert submit(store) == 1
    assert not folder.jobs.exists()
    assert sorted(path.name for path in (folder.root / "jobs.old-1").iterdir()) == ["1", "2"], "somebody may want them"
    assert instance_of(folder.root) != before, "processes and containers from before are not taken for its own"


@pytest.mark.parametrize("times", [2, 3])
def test_nothing_is_overwritten_when_that_happens_again(store: Store, folder: DataFolder, times: int) -> None:
    for _ in range(times):
        files_of(folder, 1)
        settle(store, folder, shared=False, accept=False)
    assert len(list(folder.root.glob("jobs.old-*"))) == times


def test_a_database_does_not_go_to_another_folder_unless_told(store: Store, folder: DataFolder, tmp_path: Path) -> None:
    settle(store, folder, shared=True, accept=False)
    submit(store)
    other = DataFolder(tmp_path / "other")
    with pytest.raises(OtherFolder, match=f"belongs to the data folder {folder.root}"):
        settle(store, other, shared=True, accept=False)
    assert token_of(other.root) == "", "nothing was changed"
    settle(store, folder, shared=True, accept=False)
    settle(store, other, shared=True, accept=True)
    with pytest.raises(OtherFolder):
        settle(store, folder, shared=True, accept=False)


def test_a_backup_may_be_put_into_a_new_folder(store: Store, folder: DataFolder, tmp_path: Path) -> None:
    settle(store, folder, shared=False, accept=False)
    submit(store)
    restored = DataFolder(tmp_path / "new machine")
    files_of(restored, 1)
    settle(store, restored, shared=False, accept=False)
    assert [path.name for path in restored.jobs.iterdir()] == ["1"], "they came with it"
    assert submit(store) == 2
