"""What of a project folder goes into a snapshot."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from schedulearn.client.errors import LinkLeavesFolder, SnapshotError, SnapshotTooLarge
from schedulearn.client.ignore import Ignore, Rule, parse_rules
from schedulearn.wire.words import size

MOST_ENTRIES = 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that goes into a snapshot."""

    path: str  # in the folder, with slashes
    kind: str  # file | folder | link
    size: int
    mode: int  # permission bits
    mtime: int
    target: str = ""  # of a link, relative


def list_entries(folder: Path) -> list[Entry]:
    """What a snapshot of the folder would hold, sorted by path.

    Left out: what `.gitignore` files name (also those above the folder, up to the top of its repository),
    `.git`, `__pycache__`, virtual environments, and what is neither file, folder nor link. Whether git tracks
    a file makes no difference. LinkLeavesFolder if symbolic links point out of the folder.
    """
    if not folder.is_dir():
        raise SnapshotError(f"there is no folder {folder}")
    root = folder.resolve()
    found: list[Entry] = []
    escaping: list[tuple[str, str]] = []
    for path, info in _walk(root):
        entry = _entry(root, path, info)
        if entry is None:
            continue
        found.append(entry)
        if entry.kind == "link" and not entry.target:
            escaping.append((entry.path, str(path.readlink())))
        if len(found) > MOST_ENTRIES:
            raise SnapshotTooLarge(
                f"{folder} holds more than {MOST_ENTRIES:,} files; "
                f"put what the job does not need into .gitignore. {largest(found)}"
            )
    if escaping:
        raise LinkLeavesFolder(sorted(escaping))
    return sorted(found, key=lambda entry: entry.path)


def _walk(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below the folder that is kept, in no particular order."""
    top, ignore = _rules_above(root)
    waiting = [(root, ignore)]
    while waiting:
        folder, ignore = waiting.pop()
        ignore = _with_file(ignore, top, folder)
        for path, info in _inside(root, folder):
            is_folder = stat.S_ISDIR(info.st_mode)
            if _never_packed(path, is_folder) or ignore.leaves_out(_below(path, top), is_folder):
                continue
            yield path, info
            if is_folder:
                waiting.append((path, ignore))


def _inside(root: Path, folder: Path) -> list[tuple[Path, os.stat_result]]:
    found = []
    try:
        for path in folder.iterdir():
            try:
                found.append((path, path.lstat()))
            except FileNotFoundError:  # gone since
                continue
    except OSError as problem:
        raise unreadable(str(folder.relative_to(root)), problem) from problem
    return found


def _rules_above(root: Path) -> tuple[Path, Ignore]:
    """The top of the repository that the folder is in (else the folder itself), and the rules above the folder."""
    tops = [folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")]
    if not tops:
        return root, Ignore()
    top = tops[0]
    ignore = Ignore().with_rules(b"", _rules_of(top / ".git" / "info" / "exclude"))
    for folder in reversed(root.parents):
        if folder.is_relative_to(top):
            ignore = _with_file(ignore, top, folder)
    return top, ignore


def _with_file(ignore: Ignore, top: Path, folder: Path) -> Ignore:
    return ignore.with_rules(_below(folder, top), _rules_of(folder / ".gitignore"))


def _rules_of(file: Path) -> list[Rule]:
    """The rules of a plain file; none if it is not one. git does not follow a link here either."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
            return parse_rules(opened.read())
    except OSError:
        return []


def _below(path: Path, top: Path) -> bytes:
    return b"" if path == top else os.fsencode(path.relative_to(top))


def _never_packed(path: Path, is_folder: bool) -> bool:
    if path.name == ".git":
        return True
    return is_folder and (path.name == "__pycache__" or os.path.lexists(path / "pyvenv.cfg"))


def _entry(root: Path, path: Path, info: os.stat_result) -> Entry | None:
    """None for sockets, pipes and devices."""
    name = path.relative_to(root).as_posix()
    mode, mtime = stat.S_IMODE(info.st_mode) & 0o777, max(0, int(info.st_mtime))
    if stat.S_ISLNK(info.st_mode):
        return Entry(name, "link", 0, 0o777, mtime, _target_inside(root, path))
    if stat.S_ISDIR(info.st_mode):
        return Entry(name, "folder", 0, mode, mtime)
    if stat.S_ISREG(info.st_mode):
        return Entry(name, "file", info.st_size, mode, mtime)
    return None


def _target_inside(root: Path, link: Path) -> str:
    """A link's target, made relative if it was absolute; empty if it leads out of the folder."""
    target = path = link.readlink()
    if target.is_absolute():
        path = Path(os.path.relpath(target, link.parent))
    # As it will be read where it is unpacked, and as it is now, through other links. A chain of links that
    # never ends is refused as well.
    written = Path(os.path.normpath(link.parent / path))
    try:
        real = link.resolve()
    except RuntimeError:
        return ""
    return str(path) if written.is_relative_to(root) and real.is_relative_to(root) else ""


def largest(entries: list[Entry]) -> str:
    """The largest things at the top of the folder, each with its largest file."""
    totals: dict[str, int] = {}
    files: dict[str, Entry] = {}
    for entry in entries:
        top = entry.path.partition("/")[0]
        totals[top] = totals.get(top, 0) + entry.size
        if top not in files or entry.size > files[top].size:
            files[top] = entry
    named = []
    for top in sorted(totals, key=lambda name: (-totals[name], name))[:5]:
        inside = files[top]
        more = f" (in it {inside.path}, {size(inside.size)})" if inside.path != top else ""
        named.append(f"{top}{'/' if more else ''} {size(totals[top])}{more}")
    return "The largest: " + ", ".join(named)


def unreadable(path: str, problem: OSError) -> SnapshotError:
    why = (problem.strerror or "it changed while it was read").lower()
    return SnapshotError(f"cannot pack {path}: {why}")
