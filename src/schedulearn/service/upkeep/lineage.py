"""Which database belongs to which data folder: the number of a job means something to the two of them together.

A database that is new, or older than the folder, would give out numbers again that files, processes and containers of
other jobs have; and one that was moved to another folder would not find the jobs that run.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from schedulearn.core.domain.errors import SchedulearnError
from schedulearn.executors.common.instance import ensured, renew, token_of
from schedulearn.service.common.config import DataFolder
from schedulearn.store import Store

_LOG = logging.getLogger(__name__)
_FOLDER = "data_folder"  # the setting: the token of the folder that a database belongs to, and where it was


class OtherFolder(SchedulearnError):
    """The database belongs to another data folder."""


def settle(store: Store, folder: DataFolder, *, shared: bool, accept: bool) -> None:
    """Make sure that they belong together. The caller keeps others from starting on this folder meanwhile.

    `shared`: the database lies outside of the folder, so that it could be another one's; OtherFolder if it is, unless
    that is to be `accept`ed.
    """
    bound, here = store.setting(_FOLDER) or {}, token_of(folder.root)
    if bound and bound["token"] != here and shared and not accept:
        raise OtherFolder(
            f"this database belongs to the data folder {bound['path']}: jobs that run there would be started again "
            f"beside themselves. Start with --data {bound['path']}, or, if that folder is gone for good, with "
            "--accept-data"
        )
    others = here and bound and bound["token"] != here  # a folder that was restored from a backup has no token
    if others or not store.last_job_number():
        _set_aside(folder)
    store.set_setting(_FOLDER, {"token": ensured(folder.root), "path": str(folder.root.absolute())})
    newest = max(_numbers(folder.jobs), default=0)
    if store.advance_job_numbers(newest):
        _LOG.warning(
            "the database is older than the data folder, which has files of jobs up to %d: new jobs are numbered from "
            "%d on",
            newest,
            newest + 1,
        )


def _set_aside(folder: DataFolder) -> None:
    """Files of jobs that this database knows nothing of: a user may want them, and no job must find them.

    What runs of them goes on, unknown to this service: it is another one from now on.
    """
    if not _numbers(folder.jobs):
        return
    aside = next(place for place in _places(folder.root) if not place.exists())
    folder.jobs.rename(aside)
    renew(folder.root)
    _LOG.warning(
        "the data folder has jobs of another database: their files are kept in %s; what runs of them goes on unseen",
        aside,
    )


def _places(root: Path) -> Iterable[Path]:
    yield from (root / f"jobs.old-{number}" for number in range(1, 1_000_000))


def _numbers(jobs: Path) -> list[int]:
    return [int(name) for path in jobs.glob("*") if (name := path.name.partition(".")[0]).isdigit()]
