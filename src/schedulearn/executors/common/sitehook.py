"""What every Python program of a job finds on its path: the hook for its threads, and the library `schedulearn.job`.

Files are copied, because a job may run as another user, in another image, or longer than this version is installed.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import schedulearn
from schedulearn.archive.remove import remove_tree
from schedulearn.executors.common.folders import make_folder
from schedulearn.executors.common.paths import write_file

_HOOK, _LIBRARY = "sitehook", "job"  # folders of the package
_NAME = "inside"  # the folder below the executor's own


@cache
def hook_files() -> Mapping[str, bytes]:
    """Path → content. The library is in a folder of its own, which is looked at only if no other is installed."""
    package = Path(schedulearn.__file__).parent
    files = {path: data for path, data in _sources(package / _HOOK) if path != "__init__.py"}
    for name in ("__init__.py", "pinned.py"):
        files[f"library/schedulearn/{name}"] = (package / name).read_bytes()
    return files | {f"library/schedulearn/{_LIBRARY}/{path}": data for path, data in _sources(package / _LIBRARY)}


def _sources(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


def hook_folders() -> list[str]:
    """Of these files, from the outermost on."""
    parents = {str(parent) for path in hook_files() for parent in PurePosixPath(path).parents}
    return sorted(parents - {"."})


def hook_folder(root: Path) -> Path:
    """Where they are below the executor's folder. Other versions have other folders: a job keeps its own."""
    digest = hashlib.sha256()
    for path, data in sorted(hook_files().items()):
        digest.update(f"{path} {len(data)} ".encode() + data)
    return root / _NAME / digest.hexdigest()[:16]


def install_hook(root: Path) -> None:
    """Have them there, readable for all; at once, so that they are never seen half."""
    folder = hook_folder(root)
    if folder.exists():
        return
    make_folder(folder.parent, 0o755)
    fresh = Path(tempfile.mkdtemp(prefix=".fresh-", dir=folder.parent))
    try:
        for name in hook_folders():
            make_folder(fresh / name, 0o755)
        for name, data in hook_files().items():
            write_file(fresh / name, data, 0o644)
        make_folder(fresh, 0o755)  # from now on others may enter
        fresh.rename(folder)
    except OSError:
        if not folder.exists():  # else another one was faster
            raise
    finally:
        remove_tree(fresh)
