"""Archives that are made to do harm: each is refused, in words, by whoever reads it; none takes long or takes much."""

import gzip
import io
import os
import resource
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedulearn.archive import child, confined
from schedulearn.archive.confined import unpack_fetched, unpack_snapshot
from schedulearn.archive.gunzip import Gunzip
from schedulearn.archive.reader import BadArchive, Reader
from schedulearn.archive.rules import Members
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.service.gateway.uploads import check_archive
from support.tars import END, head, member, packed, pax, record

LIMIT = 64 << 20
GOOD = member(b"good", b"x")
NEGATIVE = b"\xff" * 12
HOSTILE = {
    "a header that announces 2 GiB": (packed(head(b"pax", 2 << 30, b"x")), "a header of 2147483648 bytes"),
    "a long name that announces 2 GiB": (packed(head(b"@", 2 << 30, b"L")), "a header of 2147483648 bytes"),
    "a long link that announces 2 GiB": (packed(head(b"@", 2 << 30, b"K")), "a header of 2147483648 bytes"),
    "a size of 100,000 digits": (packed(pax((b"size", b"9" * 60_000)), GOOD), "no number"),
    "a length of 60,000 digits": (packed(member(b"pax", b"9" * 60_000, kind=b"x"), GOOD), "no lengths"),
    "a length beyond the header": (packed(member(b"pax", b"999 path=x\n", kind=b"x"), GOOD), "no list"),
    "a length of nothing": (packed(member(b"pax", b"0 path=x\n", kind=b"x"), GOOD), "no list"),
    "a header without values": (packed(member(b"pax", b"9 path x\n", kind=b"x"), GOOD), "no list"),
    "a negative size": (packed(head(size=NEGATIVE)), "a negative size"),
    "a negative size in digits": (packed(head(size=b"-0000000512\0")), "a negative size"),
    "a negative size in PAX": (packed(pax((b"size", b"-512")), GOOD), "a negative size"),
    "a negative header": (packed(head(size=NEGATIVE, kind=b"x")), "a negative size"),
    "a size beyond all": (packed(head(size=b"\x80" + b"\xff" * 11)), "too much"),
    "a size beyond all in PAX": (packed(pax((b"size", b"9" * 19)), GOOD), "too much"),
    "a size that is none": (packed(head(size=b"12x4567")), "no number"),
    "a wrong checksum": (packed(head()[:10] + b"x" + head()[11:]), "checksum"),
    "a global header": (packed(pax((b"path", b"a"), kind=b"g"), GOOD), "a global header"),
    "a sparse file of GNU": (packed(head(kind=b"S")), "sparse"),
    "a sparse file in PAX": (packed(pax((b"GNU.sparse.realsize", b"9")), GOOD), "sparse"),
    "a sparse map that lies": (packed(pax((b"GNU.sparse.map", b"0,99999999999")), GOOD), "sparse"),
    "a sparse file of star": (packed(pax((b"SCHILY.realsize", b"9")), GOOD), "sparse"),
    "an unknown kind": (packed(head(kind=b"X")), "unknown kind"),
    "a device": (packed(head(kind=b"3")), "no file, folder or link"),
    "a disk": (packed(head(kind=b"4")), "no file, folder or link"),
    "a pipe": (packed(head(kind=b"6")), "no file, folder or link"),
    "a name given twice": (packed(pax((b"path", b"a")), pax((b"path", b"b")), GOOD), "names one file twice"),
    "long names without end": (packed(*[member(b"@", b"a", kind=b"L")] * 50, GOOD), "names one file twice"),
    "a name with a zero": (packed(pax((b"path", b"a\0b")), GOOD), "zero byte"),
    "a name of nothing": (packed(member(b"")), "empty"),
    "a name that is too long": (packed(pax((b"path", b"a/" * 3000)), GOOD), "at most 4096"),
    "a part that is too long": (packed(pax((b"path", b"a" * 300)), GOOD), "too long a name"),
    "a name that is too deep": (packed(pax((b"path", b"a/" * 200 + b"f")), GOOD), "deeper than"),
    "an absolute name": (packed(member(b"/etc/cron.d/x", b"x")), "leads outside"),
    "an absolute name in PAX": (packed(pax((b"path", b"/etc/x")), GOOD), "leads outside"),
    "upwards": (packed(member(b"../x", b"x")), "leads outside"),
    "upwards from below": (packed(member(b"a/../../x", b"x")), "leads outside"),
    "upwards in a long name": (packed(member(b"@", b"../x\0", kind=b"L"), GOOD), "leads outside"),
    "a link out": (packed(member(b"l", kind=b"2", target=b"../x")), "leads outside"),
    "a link to the root": (packed(member(b"l", kind=b"2", target=b"/")), "leads outside"),
    "a link out in PAX": (packed(pax((b"linkpath", b"../../x")), head(b"l", kind=b"2")), "leads outside"),
    "a link out through another": (
        packed(member(b"a/b/up", kind=b"2", target=b"../.."), member(b"l", kind=b"2", target=b"a/b/up/../x")),
        "leads outside",
    ),
    "a link out through a later one": (
        packed(member(b"l", kind=b"2", target=b"a/b/up/../x"), member(b"a/b/up", kind=b"2", target=b"../..")),
        "leads outside",
    ),
    "a file through a link": (packed(member(b"l", kind=b"2", target=b"."), member(b"l/f", b"x")), "through a link"),
    "a file in place of a link": (packed(member(b"l", kind=b"2", target=b"f"), member(b"l", b"x")), "through a link"),
    "a link in place of a folder": (packed(member(b"d/f"), member(b"d", kind=b"2", target=b"x")), "two things"),
    "a file in place of a folder": (packed(member(b"d/f"), member(b"d", b"x")), "two things"),
    "the folder itself as a link": (packed(member(b".", kind=b"2", target=b"x")), "two things"),
    "a hard link out": (packed(member(b"h", kind=b"1", target=b"../x")), "leads outside"),
    "a hard link to the host": (packed(member(b"h", kind=b"1", target=b"/etc/shadow")), "leads outside"),
    "a hard link to nothing": (packed(member(b"h", kind=b"1", target=b"none")), "links to nothing"),
    "a hard link to a link": (
        packed(member(b"l", kind=b"2", target=b"x"), member(b"h", kind=b"1", target=b"l")),
        "links to nothing",
    ),
    "a folder with content": (packed(member(b"d", b"x" * 600, kind=b"5")), "no file"),
    "a link with content": (packed(member(b"l", b"x" * 600, kind=b"2", target=b"x")), "no file"),
    "no end": (packed(GOOD, end=b""), "too early"),
    "half a header": (packed(GOOD, end=b"x" * 100), "too early"),
    "half a file": (packed(head(size=600), b"x" * 100, end=b""), "too early"),
    "a bomb of zeros": (packed(head(size=LIMIT), bytes(LIMIT)), "too much"),
    "a bomb behind the end": (packed(GOOD, end=END + bytes(LIMIT)), "too much"),
    "gzip cut off": (packed(GOOD)[:-6], "too early"),
    "gzip with another checksum": (packed(GOOD)[:-8] + bytes(8), "no gzip file"),
    "gzip of very many parts": (gzip.compress(b"", mtime=0) * 10_001 + packed(GOOD), "parts"),
    "no gzip": (GOOD + END, "no gzip file"),
    "nothing": (b"", "too early"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_upload_is_refused_in_words(tmp_path: Path, name: str) -> None:
    data, words = HOSTILE[name]
    file = tmp_path / "a.tar.gz"
    file.write_bytes(data)
    with pytest.raises(InvalidSpec, match=words) as refused:
        check_archive(file, LIMIT)
    assert refused.value.field == "snapshot"
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("name", [name for name in HOSTILE if "gzip" not in name and "bomb" not in name])
def test_the_same_out_of_a_container_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    """There links may lead anywhere, and special files are left out; nothing lies outside."""
    data = gzip.decompress(HOSTILE[name][0]) if HOSTILE[name][0] else b""
    (tmp_path / "private" / "new").mkdir(parents=True)
    with suppress(BadArchive):
        unpack_fetched([data], tmp_path / "private" / "new", None, LIMIT)
    assert [path.name for path in tmp_path.iterdir()] == ["private"]
    assert [path.name for path in (tmp_path / "private").iterdir()] == ["new"]


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.tar.gz"
    file.write_bytes(packed(*[member(b"f%d" % number) for number in range(11)]))
    check_archive(file, LIMIT)
    monkeypatch.setattr(confined, "MOST_SNAPSHOT_FILES", 10)
    with pytest.raises(InvalidSpec, match="more than 10 files"):
        check_archive(file, LIMIT)


def test_few_bytes_may_not_become_very_many(tmp_path: Path) -> None:
    """Also where the limit is far away, a bomb is given up early."""
    file = tmp_path / "a.tar.gz"
    file.write_bytes(packed(head(size=300_000_000)))
    with pytest.raises(InvalidSpec, match=r"too much.*more than 256 MB"):
        check_archive(file, 1 << 40)


def test_what_other_programs_write_is_taken(tmp_path: Path) -> None:
    """Long names of GNU and PAX, old folders, joined gzip files, large numbers, times of day."""
    file = tmp_path / "a.tar.gz"
    long = "folder/" * 20 + "x" * 150
    pieces = [packed(member(b"old/", kind=b"\0"), end=b"")]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=form) as tar:
            info = tarfile.TarInfo(f"{form}/" + (long if form != tarfile.USTAR_FORMAT else "x" * 90))
            info.size, info.mtime = 3, 1700000000.25 if form == tarfile.PAX_FORMAT else 1700000000
            tar.addfile(info, io.BytesIO(b"abc"))
            pieces.append(gzip.compress(made.getvalue()[: tar.offset]))
    pieces.append(packed(head(b"big-number", size=b"\x80" + bytes(10) + b"\1") + b"y" + bytes(511)))
    file.write_bytes(b"".join(pieces))
    check_archive(file, LIMIT)
    (tmp_path / "to").mkdir()
    unpack_snapshot(file, tmp_path / "to", None, LIMIT)
    assert (tmp_path / "to" / "old").is_dir()
    assert (tmp_path / "to" / "big-number").read_bytes() == b"y"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        assert (tmp_path / "to" / str(form) / long).read_bytes() == b"abc"
    assert (tmp_path / "to" / str(tarfile.PAX_FORMAT) / long).stat().st_mtime == 1700000000.25


def test_unusual_bits_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    file.write_bytes(packed(member(b"f", b"x", mode=0o7777), member(b"d", kind=b"5", mode=0o7777)))
    (tmp_path / "to").mkdir()
    unpack_snapshot(file, tmp_path / "to", None, LIMIT)
    assert [(tmp_path / "to" / name).stat().st_mode & 0o7777 for name in "fd"] == [0o755, 0o755]


# --- the child

Started = list[subprocess.Popen[bytes]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """All children that were started."""
    found: Started = []
    start = confined._started

    @contextmanager
    def noted(*args: Any) -> Iterator[subprocess.Popen[bytes]]:
        with start(*args) as process:
            found.append(process)
            yield process

    monkeypatch.setattr(confined, "_started", noted)
    return found


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A child that never answers, in place of the real one."""
    script = tmp_path / "stuck.py"
    script.write_text("import signal\nwhile True: signal.pause()\n")
    monkeypatch.setattr(child, "__file__", str(script))
    return script


def test_a_child_that_does_not_answer_is_ended(
    stuck: Path, started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined, "_CHECK_SECONDS", 0.2)
    monkeypatch.setattr(confined, "_STALL", 0.2)
    file = tmp_path / "a.tar.gz"
    file.write_bytes(packed(GOOD))
    with pytest.raises(InvalidSpec, match="takes too long"):
        check_archive(file, LIMIT)
    (tmp_path / "to").mkdir()
    with pytest.raises(BadArchive, match="takes too long"):
        unpack_fetched(iter([bytes(1 << 20)] * 8), tmp_path / "to", None)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


def test_whatever_breaks_off_leaves_no_child(started: Started, tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield GOOD
        raise ConnectionError("the engine hung up")

    (tmp_path / "to").mkdir()
    with pytest.raises(ConnectionError, match="hung up"):
        unpack_fetched(chunks(), tmp_path / "to", None)
    assert [process.returncode for process in started] == [-signal.SIGKILL]


def test_the_child_has_limits_that_it_cannot_lift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that wants more memory than it may have is an archive that is refused."""
    source = Path(child.__file__)
    text = source.read_text().replace('__file__.rsplit("/", 3)[0]', repr(str(source.parents[2])))
    greedy = tmp_path / "greedy.py"
    greedy.write_text(text.replace("_TASKS[task](orders, source)", "len(bytearray(2 << 30))"))
    assert greedy.read_text() != text
    monkeypatch.setattr(child, "__file__", str(greedy))
    file = tmp_path / "a.tar.gz"
    file.write_bytes(packed(GOOD))
    with pytest.raises(InvalidSpec, match="too much memory"):
        check_archive(file, LIMIT)


def test_checking_two_gigabytes_of_header_takes_no_memory_here(tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    file.write_bytes(packed(head(b"pax", 2 << 30, b"x"), bytes(8 << 20)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidSpec, match="a header of"):
        check_archive(file, LIMIT)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


# --- whatever the bytes are

PIECES = st.lists(
    st.one_of(
        st.builds(
            head,
            st.sampled_from([b"f", b"d/f", b"l", b"l/f", b"../f", b"/f", b"d", b"."]),
            st.one_of(st.sampled_from([0, 1, 512, 2 << 30]), st.binary(max_size=12)),
            st.sampled_from([b"0", b"1", b"2", b"5", b"x", b"L", b"K", b"g", b"S", b"3"]),
            st.sampled_from([b"", b"f", b"..", b"../..", b"/etc", b"l"]),
        ),
        st.builds(lambda key, value: member(b"pax", record(key, value), kind=b"x"),
                  st.sampled_from([b"path", b"linkpath", b"size", b"mtime"]),
                  st.binary(max_size=30)),
        st.builds(member, st.sampled_from([b"f", b"d/g", b"../f", b"l/f"]), st.binary(max_size=700)),
        st.binary(max_size=600),
    ),
    max_size=6,
)  # fmt: skip


@settings(max_examples=400)
@given(pieces=PIECES)
def test_any_archive_is_read_or_refused(pieces: list[bytes]) -> None:
    """The reader alone: it ends, and raises nothing else."""
    with suppress(BadArchive):
        members = Members()
        reader = Reader(io.BytesIO(b"".join(pieces) + END), 1 << 20, 100)
        for found in reader:
            members.check(found)
            while reader.read(100):
                pass
        members.finish()


@settings(max_examples=400)
@given(data=st.binary(max_size=200), cut=st.integers(0, 200), flip=st.integers(0, 10_000))
@example(b"", 0, 0)
def test_any_gzip_is_read_or_refused(data: bytes, cut: int, flip: int) -> None:
    made = bytearray(gzip.compress(data, mtime=0))
    made[flip % len(made)] ^= 1 << flip % 8
    source = Gunzip(io.BytesIO(bytes(made[: len(made) - cut % len(made)])))
    with suppress(BadArchive):
        while source.read(10):
            pass


@settings(max_examples=40)
@given(pieces=PIECES, whole=st.booleans())
@example([b"any bytes"], False)
@example([member(b"d/f", b"x"), member(b"l", kind=b"2", target=b"d")], True)
def test_what_is_accepted_unpacks_inside(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], whole: bool
) -> None:
    """An upload is refused, or every file of it lies in its folder, and no link of it leads out."""
    folder = tmp_path_factory.mktemp("upload")
    file, to = folder / "a.tar.gz", folder / "to" / "new"
    file.write_bytes(packed(*pieces) if whole else b"".join(pieces))
    to.mkdir(parents=True)
    try:
        check_archive(file, LIMIT)
    except InvalidSpec:
        return
    unpack_snapshot(file, to, None, LIMIT)
    assert sorted(path.name for path in folder.iterdir()) == ["a.tar.gz", "to"]
    assert [path.name for path in to.parent.iterdir()] == ["new"]
    for path in to.rglob("*"):
        assert os.path.realpath(path).startswith(str(to.resolve()))
