"""What the page keeps of who is logged in."""

import json
from pathlib import Path

import pytest

from schedulearn.dashboard.access.logins import LogIns
from schedulearn.wire import types

TOKEN = "sl_" + "t" * 43


def made(user: str = "ann", number: int = 7, token: str = TOKEN) -> types.NewToken:
    return {"id": number, "token": token, "user": user, "label": "page"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "logins.json"


def test_it_is_found_again_by_the_id_alone_also_in_the_next_life(file: Path) -> None:
    first, second = (LogIns(file).add(made(token=f"{TOKEN}{n}"), "10.0.0.1") for n in "12")
    assert first != second
    again = LogIns(file)
    assert again.find(first, "10.0.0.1") == (7, f"{TOKEN}1")
    assert again.find(second, "10.0.0.1") == (7, f"{TOKEN}2")
    assert again.find("x" * 43, "10.0.0.1") is None
    again.remove(first)
    assert LogIns(file).find(first, "10.0.0.1") is None
    assert LogIns(file).find(second, "10.0.0.1")


def test_what_is_on_the_disk_is_of_no_use_without_the_browser(file: Path) -> None:
    number = LogIns(file).add(made(), "10.0.0.1")
    assert file.stat().st_mode & 0o777 == 0o600
    content = file.read_text()
    assert number not in content
    assert TOKEN not in content
    [kept] = json.loads(content).values()
    assert kept["user"] == "ann"


@pytest.mark.parametrize(
    ("at_first", "later", "good"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "::1", True),
        ("127.0.0.1", "10.0.0.1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8::1", "2001:db8::2:3", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "10.0.0.1", False),
    ],
)
def test_it_is_good_where_it_was_made(at_first: str, later: str, good: bool) -> None:
    logins = LogIns(None)
    assert bool(logins.find(logins.add(made(), at_first), later)) is good


def test_each_user_has_so_many(file: Path) -> None:
    logins = LogIns(file)
    others = logins.add(made("bob"), "")
    many = [logins.add(made(), "") for _ in range(25)]
    found = [bool(logins.find(one, "")) for one in many]
    assert found == [False] * 5 + [True] * 20
    assert logins.find(others, "")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1}', '{"a": {"b": 1}}'])
def test_a_damaged_file_only_means_to_log_in_again(file: Path, content: str) -> None:
    file.parent.mkdir()
    file.write_text(content)
    logins = LogIns(file)
    assert logins.find("x" * 43, "") is None
    number = logins.add(made(), "")
    assert LogIns(file).find(number, "")


def test_without_a_place_for_the_file_they_end_with_the_page(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("this is no folder")
    logins = LogIns(tmp_path / "data" / "logins.json")
    assert logins.find(logins.add(made(), ""), "")
