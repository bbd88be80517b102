"""What comes back from a job cannot leave the folder that it is brought into."""

import tarfile
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client.errors import ClientError
from schedulearn.client.unpack import check_member


def member(name: str, **values: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    for key, value in values.items():
        setattr(made, key, value)
    return made


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("../out", {}),
        ("/etc/x", {}),
        ("a", {"type": tarfile.SYMTYPE, "linkname": "/etc"}),
        ("d/a", {"type": tarfile.SYMTYPE, "linkname": "../../out"}),
        ("a", {"type": tarfile.LNKTYPE, "linkname": "../out"}),
        ("away/x", {}),
        ("a", {"type": tarfile.FIFOTYPE}),
        ("a", {"type": tarfile.CHRTYPE}),
    ],
)
def test_it_is_refused(tmp_path: Path, name: str, values: dict[str, Any]) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "away").symlink_to(tmp_path)
    with pytest.raises(ClientError, match="nothing more was fetched"):
        check_member(member(name, **values), here)


def test_it_is_taken_without_owner_and_unusual_bits(tmp_path: Path) -> None:
    for made in (member("d/a", mode=0o4777), member("d/b", type=tarfile.SYMTYPE, linkname="../c", mode=0o777)):
        check_member(made, tmp_path)
        assert made.mode == 0o755
        assert (made.uname, made.gname) == ("", "")
