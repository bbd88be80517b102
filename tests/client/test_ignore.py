"""The `.gitignore` matcher says the same as git itself."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedulearn.client import list_entries

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not on this machine")

FILES = (
    "a", "b.txt", "c.pyc", "foo", "foo.log", "#x", "!y", "-", "q]", "sp ", "d\\e", "é", "Z", "5",
    "src/a", "src/foo", "src/b.txt", "src/deep/a", "src/deep/foo/bar", "src/deep/foo/c.pyc",
    "foo.d/a", "foo.d/foo", "build/out/a", "build/foo.log", "data/x.bin", "data/keep/x.bin", "a-b/c_d/e.f/g",
)  # fmt: skip

# (.gitignore files by their folder)
TABLE: list[dict[str, str]] = [
    {"": "a\n"},
    {"": "/a\n"},
    {"": "foo/\n"},
    {"": "*.log\n!foo.log\n"},
    {"": "src/*\n!src/deep\n"},
    {"": "src/\n!src/a\n"},
    {"": "src/**/foo\n"},
    {"": "**/foo\n"},
    {"": "src/**\n!src/a\n"},
    {"": "/**/x.bin\n"},
    {"": "**\n!*/\n!*.txt\n"},
    {"": "a**\n"},
    {"": "src**/a\n"},
    {"": "***/foo\n"},
    {"": "s?c**/a\n"},
    {"": "src/de/\n"},
    {"": "src/dee**/\n"},
    {"": "**\\/foo\n"},
    {"": "sr?/a\n"},
    {"": "[a-c]*\n"},
    {"": "[!a-c]*\n"},
    {"": "[^a-c]*\n"},
    {"": "[[:upper:][:digit:]]\n"},
    {"": "[[:nonsense:]]\n"},
    {"": "[[:upper:]\n"},
    {"": "[[:]\n"},
    {"": "[]q]*\n"},
    {"": "q[]]\n"},
    {"": "[a\n"},
    {"": "[a-]*\n"},
    {"": "[-a]*\n"},
    {"": "[\\-]\n"},
    {"": "[+--]\n"},
    {"": "[z-a]\n"},
    {"": "src[/]a\n"},
    {"": "a[!x]b/\n"},
    {"": "#x\n"},
    {"": "\\#x\n\\!y\n"},
    {"": "!y\n"},
    {"": "sp \n"},
    {"": "sp\\ \n"},
    {"": "sp\\  \n"},
    {"": "foo  \n"},
    {"": "foo\t\n"},
    {"": "d\\\\e\n"},
    {"": "d\\e\n"},
    {"": "foo\\\n"},
    {"": "fo\\o\n"},
    {"": "?\n"},
    {"": "??\n"},
    {"": "é\n"},
    {"": "[é]\n"},
    {"": "\ufefffoo\n"},
    {"": "foo\r\na\r\n"},
    {"": "foo"},
    {"": "/\n//\n!\n\n \n"},
    {"": "src/deep/\n", "src": "!deep/\n"},
    {"": "*.pyc\n", "src/deep": "!*.pyc\n"},
    {"": "foo\n", "src": "!foo\n"},
    {"src": "/a\n"},
    {"src": "deep/a\n"},
    {"src/deep": "**\n"},
    {"": "build\n!build/foo.log\n"},
    {"": "build/*\n!build/foo.log\n"},
    {"": "data/**\n!data/**/\n!data/**/keep/**\n"},
    {"": ".gitignore\n"},
    {"": "a-b/c_d/*.f/g\n"},
    {"": "a-b/*/g\n"},
    {"": "a-b/**/g\n"},
    {"": "*/foo\n"},
    {"": "*/*/*\n!src/deep/a\n"},
]  # fmt: skip


def build(top: Path, files: tuple[str, ...], rules: dict[str, bytes]) -> None:
    for name in files:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")
    for folder, text in rules.items():
        (top / folder).mkdir(parents=True, exist_ok=True)
        (top / folder / ".gitignore").write_bytes(text)
    git(top, "init", "-q")


def git(folder: Path, *arguments: str) -> list[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null"}
    clean["GIT_CONFIG_NOSYSTEM"] = "1"
    done = subprocess.run(["git", *arguments], cwd=folder, env=clean, capture_output=True, check=True)
    return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name)


def kept_by_git(folder: Path) -> list[str]:
    return git(folder, "ls-files", "-z", "-co", "--exclude-standard")


def kept_by_us(folder: Path) -> list[str]:
    return sorted(entry.path for entry in list_entries(folder) if entry.kind != "folder")


@pytest.mark.parametrize("rules", TABLE, ids=repr)
def test_a_rule_means_what_it_means_to_git(rules: dict[str, str], tmp_path: Path) -> None:
    build(tmp_path, FILES, {folder: text.encode() for folder, text in rules.items()})
    assert kept_by_us(tmp_path) == kept_by_git(tmp_path)


PIECES = st.sampled_from(
    [*b"* ** ? / a b foo src deep . [ab] [!a] [a-f] [] \\ ! # [[:alpha:]] -".split(), b" "],
)
LINES = st.lists(st.lists(PIECES, min_size=1, max_size=6).map(b"".join), max_size=4).map(b"\n".join)
NAMES = st.sampled_from(["a", "b", "foo", "src", "deep", "a.b", "-", "[]", "!a", "#", "fooa"])
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=4), min_size=1, max_size=12)


def tree(paths: list[list[str]]) -> tuple[str, ...]:
    """File names of which none is also a folder of another."""
    names = {"/".join(path) for path in paths}
    return tuple(sorted(name for name in names if not any(other.startswith(name + "/") for other in names)))


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths=PATHS, top=LINES, nested=LINES)
def test_any_rules_on_any_tree_leave_what_git_leaves(
    paths: list[list[str]], top: bytes, nested: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    try:
        files = tree(paths)
        inner = next((name.rpartition("/")[0] for name in files if "/" in name), "other")
        build(folder, files, {"": top, inner: nested})
        assert kept_by_us(folder) == kept_by_git(folder)
    finally:
        shutil.rmtree(folder)


def test_rules_above_the_folder_hold_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("b.txt\n")  # outside of the repository: does not count
    top = tmp_path / "repo"
    top.mkdir()
    build(top, FILES, {"": b"/src/deep/a\nfoo\n", "src": b"!foo\n*.pyc\n"})
    (top / ".git" / "info" / "exclude").write_text("bar\n")
    inner = top / "src" / "deep"
    assert kept_by_us(inner) == kept_by_git(inner) == []
    inner = top / "src"
    assert kept_by_us(inner) == kept_by_git(inner) == [".gitignore", "a", "b.txt", "foo"]


def test_a_link_to_a_folder_is_no_folder(tmp_path: Path) -> None:
    build(tmp_path, ("real/a",), {"": b"link/\n"})
    (tmp_path / "link").symlink_to("real")
    assert kept_by_us(tmp_path) == kept_by_git(tmp_path) == [".gitignore", "link", "real/a"]


def test_a_gitignore_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    build(tmp_path, ("a", "rules"), {})
    (tmp_path / "rules").write_text("a\n")
    (tmp_path / ".gitignore").symlink_to("rules")
    assert "a" in kept_by_us(tmp_path)
    assert "a" in kept_by_git(tmp_path)
