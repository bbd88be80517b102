"""A job's files as a tar stream, without ever following a link out of its folder."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path, PurePosixPath

from schedulearn.archive.pack import END, pack_found
from schedulearn.archive.walk import Tree
from schedulearn.core.domain.errors import InvalidSpec, NotFound


def tar_of(root: Path, path: str) -> Iterator[bytes]:
    """A tar stream of `path` (relative; "" is everything) below `root`. Errors are raised before the first byte."""
    stream = _stream(root, _parts(path), path)
    return chain([next(stream)], stream)


def _parts(path: str) -> tuple[str, ...]:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in path or len(path) > 4096:
        raise InvalidSpec("path", "leads out of the job's folder", "a path inside the run folder, such as out/model.pt")
    return pure.parts


def _stream(root: Path, parts: tuple[str, ...], path: str) -> Iterator[bytes]:
    try:
        tree = Tree(root)
    except OSError:
        raise NotFound("this job has no files: it has not started yet, or they have been removed") from None
    with tree:
        found = None
        for found in tree.at(parts):
            yield from pack_found(found, str(PurePosixPath(*found.parts)))
        if found is None:
            raise NotFound(f"there is no {path!r} among the files of this job (links are not followed)")
        yield END
