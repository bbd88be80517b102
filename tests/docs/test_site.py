"""The site of the documentation: it can be built, loads nothing from elsewhere, and its reference is up to date."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from schedulearn import variables
from support.browser import Browser
from support.pages import ROOT
from support.waiting import wait_until

_KEY_UP = "document.querySelector('input.md-search__input').dispatchEvent(new KeyboardEvent('keyup'))"


def test_the_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["pages"]()
    there = {name: (ROOT / "docs" / "reference" / name).read_text("utf-8") for name in made}
    assert [name for name in made if there[name] != made[name]] == [], "run: python scripts/reference.py --write"


def test_every_variable_of_our_own_is_in_the_reference_and_no_other() -> None:
    files = [file for file in (ROOT / "src").rglob("*.py") if file.name != "variables.py"]
    used = {name for file in files for name in re.findall(r"\bSCHEDULEARN_[A-Z_]+\b", file.read_text("utf-8"))}
    assert {*variables.CLIENT, *variables.SERVICE, *variables.JOB} == used


def test_every_diagram_is_drawn() -> None:
    hooks = runpy.run_path(str(ROOT / "scripts" / "site_hooks.py"))
    wanted = {hooks["diagram_name"](source) for source in hooks["diagrams"]()}
    drawn = {path.name for path in hooks["DIAGRAMS"].iterdir()}
    assert wanted == drawn, "run: python scripts/diagrams.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, env=env)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_it_is_built_without_a_warning_with_every_page(site: Path) -> None:
    pages = {str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages <= {str(page.relative_to(site)) for page in site.rglob("*.html")}


def test_no_list_has_become_a_line_of_text(site: Path) -> None:
    """It does where no empty line stands before it."""
    for page in site.rglob("*.html"):
        for paragraph in re.findall(r"<p>.*?</p>", page.read_text("utf-8"), re.DOTALL):
            assert not re.search(r"\n(- |\d+\. )", paragraph), f"{page}: {paragraph}"


def test_it_can_be_searched_from_a_folder(site: Path, browser: Browser) -> None:
    """Without a server, as a person would who was given the folder."""
    with browser.page() as page:
        page.resize(1200)  # wide enough for the field to be seen
        page.open(f"file://{site}/reference/environment.html")
        page.fill("input.md-search__input", "webhook")
        page.script(_KEY_UP)  # what is typed is looked at when a key goes up
        wait_until(lambda: "signature" in page.text_of(".md-search__output"), 60, "something is found")
        assert page.problems == []
        assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Links may lead away; scripts, styles, fonts and pictures may not."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?([^\s\">]+)", text)
        loaded += [
            href for tag, href in re.findall(r"<link([^>]*)\shref=\"?([^\s\">]+)", text) if "canonical" not in tag
        ]
        assert [url for url in loaded if re.match(r"(https?:)?//", url)] == [], page
    for file in [*site.rglob("*.css"), *site.rglob("*.js")]:
        text = file.read_text("utf-8")
        assert not re.search(r"url\([\"']?(https?:)?//|unpkg|jsdelivr|cdnjs|googleapis", text), file
