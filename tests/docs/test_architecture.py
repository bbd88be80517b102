"""No packages import each other in a circle. Every import counts, also one inside of a function."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from support.pages import ROOT

SOURCE = ROOT / "src"
# Circles that are known: this list may only become shorter. A package of one of these may import any other of it.
KNOWN = (
    {
        "schedulearn.core.policies",
        "schedulearn.core.policies.allocate",
        "schedulearn.core.policies.migrate",
        "schedulearn.core.policies.order",
        "schedulearn.core.policies.place",
        "schedulearn.core.policies.share",
    },
    {"schedulearn.service.progress", "schedulearn.service.progress.tensorboard"},
    {
        "schedulearn.cli",
        "schedulearn.cli.common",
        "schedulearn.dashboard",
        "schedulearn.dashboard.pages",
        "schedulearn.dashboard.views",
    },
)


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
    graph = {
        package: {other for other in others if not any({package, other} <= known for known in KNOWN)}
        for package, others in packages().items()
    }
    assert circle(graph) == []


def test_imports_inside_of_functions_are_counted() -> None:
    assert "schedulearn.api" in packages()["schedulearn.cli"], "`up` imports the server when it is run"


def test_a_circle_would_be_found() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
