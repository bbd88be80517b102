"""The page on the architecture has every package, and no packages import each other in a circle.

Every import counts, also one inside of a function.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.pages import DOCS, ROOT

SOURCE = ROOT / "src"


# --- the page

PAGE = (DOCS / "architecture.md").read_text("utf-8")
PRODUCT = SOURCE / "schedulearn"


def rooms() -> Iterator[str]:
    """What the first column of the table of packages names: `a/{b,c}/` is two of them."""
    table = PAGE.partition("| package | what is in it |\n")[2].partition("\n\n")[0]
    for line in table.splitlines():
        for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
            before, _, rest = name.partition("{")
            inside, _, after = rest.partition("}")
            yield from (f"{before}{one}{after}" for one in inside.split(","))


def test_every_package_has_a_line_and_no_other() -> None:
    modules = [file for file in PRODUCT.rglob("*.py") if file.name != "__init__.py"]
    homes = {file.parent for file in modules}
    wanted = {f"{home.relative_to(PRODUCT)}/" for home in homes - {PRODUCT}}
    wanted |= {file.name for file in modules if file.parent == PRODUCT}
    assert sorted(rooms()) == sorted(wanted)


def test_every_path_that_is_named_exists() -> None:
    named = set(re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", PAGE))
    assert {path for path in named if not (PRODUCT / path).exists() and not (ROOT / path).exists()} == {"log/"}


# --- circles


def name_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).parent.parts)


def imported(file: Path) -> Iterator[str]:
    """What each import of a file names: a module, or something in it."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package_of(file).split(".")
            base = above[: len(above) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


@cache
def packages() -> dict[str, set[str]]:
    """The packages that each package imports."""
    files = list((SOURCE / "schedulearn").rglob("*.py"))
    homes = {name_of(file): package_of(file) for file in files}
    found: dict[str, set[str]] = {package: set() for package in homes.values()}
    for file in files:
        for name in imported(file):
            home = homes.get(name) or homes.get(name.rpartition(".")[0])
            if home:
                found[package_of(file)].add(home)
    return {package: others - {package} for package, others in found.items()}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One that is there, as a way around it."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_packages_import_each_other() -> None:
    assert circle(packages()) == []


@pytest.mark.slow
def test_imports_inside_of_functions_are_counted() -> None:
    assert "schedulearn.api" in packages()["schedulearn.cli"], "`up` imports the server when it is run"


def test_a_circle_would_be_found() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
