"""What the page of promises names is there: files of tests, benchmarks, and targets of the Makefile."""

import re

from support.pages import DOCS, ROOT

PAGE = (DOCS / "promises.md").read_text("utf-8")


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(tests/[^`:]+)", PAGE))
    assert len(named) > 50
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_every_lane_that_is_named_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"`make ([a-z-]+)`", PAGE)) <= set(targets)
    benchmarks = set(re.findall(r"`python -m bench ([a-z]+)", PAGE))
    assert sorted(name for name in benchmarks if not (ROOT / "bench" / f"{name}.py").exists()) == []


def test_every_promise_says_how_it_is_tested() -> None:
    rows = [
        line.split("|") for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| promise |")
    ]
    assert all("`" in row[2] for row in rows if not row[1].strip().startswith(("`", "lane")))
