"""Fill a run folder from the snapshot of a user's project, as that user, where nobody else can come to it."""

import tempfile
from pathlib import Path

from schedulearn.archive.confined import Owner, give_empty, unpack_snapshot
from schedulearn.archive.reader import Damaged, Refused, TooLarge
from schedulearn.archive.remove import remove_tree
from schedulearn.core.domain.errors import ExecutorError

__all__ = ["Owner", "fill_run_folder"]
_MOST = 1 << 40  # bytes: how large a project may be was asked when it was uploaded


def fill_run_folder(run: Path, snapshot: Path | None, owner: Owner) -> None:
    """Unpack beside it and rename, so that a run folder is always whole. The caller holds the job's lock."""
    private = Path(tempfile.mkdtemp(prefix=f"{run.name}.tmp-", dir=run.parent))  # only the service may enter
    try:
        fresh = private / "new"
        fresh.mkdir(mode=0o700)
        give_empty(fresh, owner)
        if snapshot is not None:
            _unpack(snapshot, fresh, owner)
        fresh.rename(run)
    finally:
        remove_tree(private)


def _unpack(snapshot: Path, folder: Path, owner: Owner) -> None:
    try:
        unpack_snapshot(snapshot, folder, owner, _MOST)
    except FileNotFoundError as error:
        if not snapshot.exists():
            raise ExecutorError("the snapshot of the project is missing") from error  # others read this: no hash
        raise
    except (Refused, TooLarge) as error:
        raise ExecutorError(f"the snapshot is refused: {error}") from error
    except Damaged as error:
        raise ExecutorError(f"the snapshot is damaged: {error}") from error
