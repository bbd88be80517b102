"""A snapshot holds what it should, the same bytes for the same content, and refuses what it cannot hold."""

import hashlib
import os
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedulearn.client import LinkLeavesFolder, SnapshotError, SnapshotTooLarge, list_entries, make_snapshot
from schedulearn.client import entries as entries_module
from schedulearn.client.snapshot import snapshot_limit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


TRUSTED: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python has it since 3.11.4


def write(folder: Path, name: str, text: str = "x") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def paths(folder: Path) -> list[str]:
    return [entry.path for entry in list_entries(folder)]


def members(folder: Path) -> dict[str, tarfile.TarInfo]:
    with make_snapshot(folder) as snapshot, tarfile.open(snapshot.path) as archive:
        return {member.name: member for member in archive}


def test_it_unpacks_to_what_was_there(folder: Path, tmp_path: Path) -> None:
    write(folder, "train.py", "print(1)").chmod(0o755)
    write(folder, "pkg/a b/ü.txt", "text")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("pkg/a b")
    os.utime(folder / "train.py", (1_000_000_000.5, 1_000_000_000.5))
    with make_snapshot(folder) as snapshot:
        assert hashlib.sha256(snapshot.path.read_bytes()).hexdigest() == snapshot.sha256
        assert snapshot.path.stat().st_size == snapshot.size
        with tarfile.open(snapshot.path) as archive:
            archive.extractall(tmp_path / "out", **TRUSTED)
    assert not snapshot.path.exists()
    out = tmp_path / "out"
    assert (out / "train.py").read_text() == "print(1)"
    assert (out / "train.py").stat().st_mode & 0o777 == 0o755
    assert (out / "train.py").stat().st_mtime == 1_000_000_000
    assert (out / "link" / "ü.txt").read_text() == "text"
    assert (out / "empty").is_dir()


def test_owners_are_left_out(folder: Path) -> None:
    write(folder, "a")
    member = members(folder)["a"]
    assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.binary(max_size=50), min_size=1, max_size=6))
def test_equal_content_gives_equal_bytes_wherever_it_is(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    hashes = set()
    for order in (sorted(files), sorted(files, reverse=True)):
        folder = tmp_path_factory.mktemp("same")
        for name in order:
            (folder / name).write_bytes(files[name])
            os.utime(folder / name, (1000, 1000))
        with make_snapshot(folder) as snapshot:
            hashes.add(snapshot.sha256)
    assert len(hashes) == 1


def test_other_content_gives_another_hash(folder: Path) -> None:
    file = write(folder, "a", "1")
    os.utime(file, (1000, 1000))
    with make_snapshot(folder) as first:
        pass
    file.write_text("2")
    os.utime(file, (1000, 1000))
    with make_snapshot(folder) as second:
        pass
    assert first.sha256 != second.sha256


def test_what_no_job_needs_is_left_out(folder: Path) -> None:
    for name in ("a.py", ".git/config", "pkg/__pycache__/a.pyc", "pkg/b.py", "sub/.git", "notes/.env"):
        write(folder, name)
    write(folder, ".venv/pyvenv.cfg")
    write(folder, ".venv/lib/big.py")
    write(folder, "tools/env/pyvenv.cfg")
    (folder / "pipe").parent.mkdir(exist_ok=True)
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(folder / "s"))
    assert paths(folder) == ["a.py", "notes", "notes/.env", "pkg", "pkg/b.py", "sub", "tools"]


def test_names_that_are_no_text_are_kept(folder: Path, tmp_path: Path) -> None:
    name = b"caf\xe9.txt"
    (folder / os.fsdecode(name)).write_text("x")
    with make_snapshot(folder) as snapshot, tarfile.open(snapshot.path) as archive:
        archive.extractall(tmp_path / "out", **TRUSTED)
    assert [os.fsencode(path.name) for path in (tmp_path / "out").iterdir()] == [name]


def test_very_deep_folders_and_very_long_names(folder: Path) -> None:
    deep = "/".join(["d" * 20] * 60) + "/" + "f" * 200
    write(folder, deep)
    assert deep in members(folder)


def test_links_that_stay_inside_are_kept_and_made_relative(folder: Path) -> None:
    write(folder, "data/a")
    (folder / "sub").mkdir()
    (folder / "sub" / "up").symlink_to("../data/a")
    (folder / "sub" / "absolute").symlink_to(folder / "data")
    (folder / "dangling").symlink_to("not/there")
    found = members(folder)
    assert found["sub/up"].linkname == "../data/a"
    assert found["sub/absolute"].linkname == "../data"
    assert found["dangling"].linkname == "not/there"


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../other", "sub/../../x", "hop/../x"])
def test_links_that_lead_out_are_refused_by_name(folder: Path, target: str) -> None:
    (folder / "sub").mkdir()
    (folder / "hop").symlink_to(folder.parent)
    (folder / ".gitignore").write_text("hop\n")
    (folder / "sub" / "keep").symlink_to("..")  # the folder itself: inside
    (folder / "bad").symlink_to(target)
    with pytest.raises(LinkLeavesFolder, match=f"bad -> {target}") as caught:
        make_snapshot(folder)
    assert caught.value.links == [("bad", target)]


def test_links_in_a_circle_are_refused_or_kept_but_never_followed(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    with pytest.raises(LinkLeavesFolder):
        list_entries(folder)


def test_a_link_that_gitignore_names_is_no_problem(folder: Path) -> None:
    (folder / "data").symlink_to("/etc")
    write(folder, ".gitignore", "data\n")
    assert paths(folder) == [".gitignore"]


def test_too_much_is_refused_with_the_largest_named(folder: Path) -> None:
    write(folder, "data/train.bin", "x" * 5000)
    write(folder, "data/test.bin", "x" * 1000)
    write(folder, "model.pt", "x" * 2000)
    write(folder, "train.py")
    with pytest.raises(SnapshotTooLarge) as caught:
        make_snapshot(folder, limit=4000)
    text = str(caught.value)
    assert "8 kB, more than the limit of 4 kB" in text
    assert "data/ 6 kB (in it data/train.bin, 5 kB), model.pt 2 kB, train.py 1 B" in text


def test_too_many_files_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries_module, "MOST_ENTRIES", 3)
    for i in range(5):
        write(folder, f"f{i}")
    with pytest.raises(SnapshotTooLarge, match="more than 3 files"):
        make_snapshot(folder)


@pytest.mark.parametrize(
    ("text", "size"), [("", 200_000_000), ("5000", 5000), ("1.5 kB", 1500), ("2MiB", 2 * 1024**2), ("1g", 10**9)]
)
def test_the_limit_comes_from_the_environment(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULEARN_SNAPSHOT_LIMIT", text)
    assert snapshot_limit() == size


@pytest.mark.parametrize("text", ["big", "-1", "1 TB", "I"])
def test_a_limit_that_is_no_size_is_said(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULEARN_SNAPSHOT_LIMIT", text)
    with pytest.raises(SnapshotError, match="SCHEDULEARN_SNAPSHOT_LIMIT"):
        snapshot_limit()


def test_a_file_that_shrinks_while_it_is_packed_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "log.txt", "x" * 100)
    found = list_entries(folder)
    write(folder, "log.txt", "x" * 10)
    monkeypatch.setattr("schedulearn.client.snapshot.list_entries", lambda _: found)
    with pytest.raises(SnapshotError, match=r"cannot pack log\.txt: it changed"):
        make_snapshot(folder)


def test_a_file_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "gone.txt")
    found = list_entries(folder)
    (folder / "gone.txt").unlink()
    monkeypatch.setattr("schedulearn.client.snapshot.list_entries", lambda _: found)
    with pytest.raises(SnapshotError, match=r"cannot pack gone\.txt: no such file"):
        make_snapshot(folder)


def test_a_folder_that_is_not_there_is_said(folder: Path) -> None:
    with pytest.raises(SnapshotError, match="there is no folder"):
        make_snapshot(folder / "missing")


def test_no_temporary_file_stays_behind(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    write(folder, "a", "x" * 100)
    found = list_entries(folder)
    write(folder, "a", "x")
    monkeypatch.setattr("schedulearn.client.snapshot.list_entries", lambda _: found)
    with pytest.raises(SnapshotError):
        make_snapshot(folder)
    assert list((tmp_path / "temporary").iterdir()) == []
