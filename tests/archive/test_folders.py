"""Folders as jobs leave them: deep, full of holes, closed; walked, packed and removed all the same."""

import os
from pathlib import Path

import pytest

from schedulearn.archive import walk
from schedulearn.archive.confined import unpack_fetched
from schedulearn.archive.extract import free_bytes
from schedulearn.archive.reader import BadArchive, TooLarge
from schedulearn.archive.remove import remove_tree
from schedulearn.archive.walk import Tree
from schedulearn.core.domain.errors import NotFound
from schedulearn.executors.common.archive import Entry, TooMuch, pack, read_file, unpack
from schedulearn.service.exec.commands import tar_of
from support.tars import END, head, member


def deep(folder: Path, levels: int) -> None:
    """As a program can make it that goes down step by step: no path is ever too long."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("f", os.O_CREAT, dir_fd=at))
    os.close(at)


@pytest.mark.slow
def test_however_deep_it_can_be_removed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    deep(folder, 3000)
    remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


def test_too_deep_to_be_packed_is_said(tmp_path: Path) -> None:
    deep(tmp_path, 150)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(TooMuch, match="deeper than 100 levels"):
        list(pack([Entry("work", tmp_path)], (1, 1)))
    with Tree(tmp_path) as tree:
        assert len(list(tree.below(strict=False))) == 100
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_too_many_to_be_packed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d").mkdir()
    for name in ("a", "d/b", "d/c"):
        (tmp_path / name).touch()
    with Tree(tmp_path) as tree:
        assert [found.parts for found in tree.below()] == [("a",), ("d",), ("d", "b"), ("d", "c")]
        monkeypatch.setattr(walk, "MOST_ENTRIES", 3)
        with pytest.raises(TooLarge, match="more than 3 files"):
            list(tree.below())


def test_what_a_job_has_closed_is_removed(tmp_path: Path) -> None:
    closed = tmp_path / "folder" / "a" / "b" / "c"
    closed.mkdir(parents=True)
    for path in (closed, *closed.parents[:3]):
        (path / "f").touch()
        path.chmod(0)
    remove_tree(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_removed_already(tmp_path: Path) -> None:
    remove_tree(tmp_path / "none")
    remove_tree(tmp_path / "none" / "none")


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_folder_that_is_a_link_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "there")
    with pytest.raises(NotFound, match="no files"):
        tar_of(tmp_path / "run", "")


# --- what comes out of a container


def fresh(folder: Path) -> Path:
    (folder / "new").mkdir()
    return folder / "new"


@pytest.mark.slow
def test_holes_stay_holes(tmp_path: Path) -> None:
    """Half a gigabyte of nothing with a little at both ends."""
    source = tmp_path / "from"
    source.mkdir()
    with open(source / "sparse", "wb") as file:
        file.write(b"begin")
        file.seek(256 << 20)
        file.write(b"end")
        file.truncate(512 << 20)
    unpack(pack([Entry("work", source)], (1, 1)), fresh(tmp_path), None)
    made = tmp_path / "new" / "sparse"
    assert made.stat().st_size == 512 << 20
    assert made.stat().st_blocks * 512 < 1 << 20
    with open(made, "rb") as file:
        assert file.read(6) == b"begin\0"
        file.seek(256 << 20)
        assert file.read(4) == b"end\0"


def test_more_than_is_taken_is_refused_by_its_header_alone(tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    with pytest.raises(TooMuch, match="more than 1 MB"):
        unpack([member(b"work/", kind=b"5") + head(b"work/huge", 10_000_000)], folder, None, 1_000_000)
    assert list(folder.iterdir()) == []


def test_more_than_the_whole_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TooMuch, match="more than"):
        unpack([head(b"work/huge", b"\x80" + bytes(3) + b"\xff" * 8)], fresh(tmp_path), None)


def test_the_last_of_the_disk_is_kept_free(tmp_path: Path) -> None:
    """A file that fits on the disk, but not into what is free of it."""
    folder = os.open(tmp_path, os.O_RDONLY)
    disk = os.fstatvfs(folder)
    free, size = free_bytes(folder), disk.f_blocks * disk.f_frsize
    os.close(folder)
    assert free < disk.f_bavail * disk.f_frsize
    wanted = (free + size) // 2
    with pytest.raises(OSError, match="more than the service's disk has left"):
        unpack([head(b"work/huge", b"\x80" + wanted.to_bytes(11, "big"))], fresh(tmp_path), None, size)


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    assert read_file([member(b"f", b"12345") + END], 5) == b"12345"
    assert read_file([member(b"f", b"12345") + END], 4) == b""
    assert read_file([head(b"f", 1 << 40)], 1 << 20) == b""
    assert read_file([member(b"f", kind=b"2", target=b"/etc/passwd") + END], 5) == b""


def test_special_files_are_left_out_and_links_kept_as_they_are(tmp_path: Path) -> None:
    pieces = [
        member(b"work/", kind=b"5"),
        member(b"work/pipe", kind=b"6"),
        member(b"work/out", kind=b"2", target=b"/etc/passwd"),
        member(b"work/f", b"x", mode=0o4000),
        member(b"work/h", kind=b"1", target=b"work/f"),
        END,
    ]
    unpack_fetched(pieces, fresh(tmp_path), None)
    made = tmp_path / "new"
    assert sorted(path.name for path in made.iterdir()) == ["f", "h", "out"]
    assert made.joinpath("out").readlink() == Path("/etc/passwd")
    assert made.joinpath("f").stat().st_mode & 0o7777 == 0o600
    assert made.joinpath("h").samefile(made / "f")


@pytest.mark.parametrize("link", [member(b"work/l", kind=b"2", target=b"/"), member(b"work/l", b"x")])
def test_nothing_is_put_through_what_is_no_folder(tmp_path: Path, link: bytes) -> None:
    with pytest.raises(BadArchive, match="through a link or a file"):
        unpack_fetched([link, member(b"work/l/x", b"x"), END], fresh(tmp_path), None)
