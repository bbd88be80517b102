"""What comes back from a job cannot leave the folder that it is brought into."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client.errors import ClientError
from schedulearn.client.unpack import unpack


def archive(*members: tuple[str, dict[str, Any]]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, values in members:
            info = tarfile.TarInfo(name)
            for key, value in values.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    made.seek(0)
    return made


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("../out", {}),
        ("/etc/x", {}),
        ("a", {"type": tarfile.SYMTYPE, "linkname": "/etc"}),
        ("d/a", {"type": tarfile.SYMTYPE, "linkname": "../../out"}),
        ("a", {"type": tarfile.LNKTYPE, "linkname": "../out"}),
        ("a", {"type": tarfile.LNKTYPE, "linkname": "mine"}),
        ("away/x", {}),
        ("a", {"type": tarfile.FIFOTYPE}),
        ("a", {"type": tarfile.CHRTYPE}),
        ("away", {"type": tarfile.DIRTYPE}),
        ("folder", {}),
    ],
)
def test_it_is_refused(tmp_path: Path, name: str, values: dict[str, Any]) -> None:
    """`away` and `mine` lay there before: a link out of the folder, and a file that is none of the job's."""
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    (here / "away").symlink_to(tmp_path)
    (here / "mine").touch()
    with pytest.raises(ClientError, match="nothing more was fetched"):
        unpack(archive((name, values)), here)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]
    assert sorted(path.name for path in here.iterdir() if path.name != "a") == ["away", "folder", "mine"]


def test_it_is_taken_without_owner_and_unusual_bits(tmp_path: Path) -> None:
    written = unpack(
        archive(
            ("d/a", {"mode": 0o4777, "uid": 12345, "size": 3}),
            ("d/b", {"type": tarfile.SYMTYPE, "linkname": "../c", "mode": 0o777}),
            ("d/c", {"type": tarfile.LNKTYPE, "linkname": "d/a"}),
        ),
        tmp_path,
    )
    assert written == [tmp_path / "d" / name for name in "abc"]
    assert (tmp_path / "d/a").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "d/a").stat().st_uid == tmp_path.stat().st_uid
    assert (tmp_path / "d/b").readlink() == Path("../c")
    assert (tmp_path / "d/c").samefile(tmp_path / "d/a")


def test_a_link_in_the_way_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "model").symlink_to(tmp_path / "other")
    unpack(archive(("model", {"size": 5})), tmp_path / "to")
    assert (tmp_path / "to" / "model").read_bytes() == bytes(5)
    assert (tmp_path / "other").read_text() == "mine"
