"""What is built has a section in the changelog, below what is not released yet."""

import re

import schedulearn
from support.pages import ROOT


def test_the_version_is_the_newest_of_the_changelog() -> None:
    titles = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert titles[:2] == ["Unreleased", schedulearn.__version__]
