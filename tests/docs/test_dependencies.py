"""What is installed is locked: every version, every file by its hash, and none with a hole that is known."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
HOLES = tomllib.loads((ROOT / "requirements" / "known-holes.toml").read_text("utf-8"))
FILES = ("runtime.txt", "image.txt", "dev.txt")
OF_THE_MACHINE = {"torch", "tensorflow-cpu"}  # installed after what is locked: their builds differ


class Pin(NamedTuple):
    name: str
    version: Version
    hashes: list[str]
    text: str


def pins(file: str) -> list[Pin]:
    text = (ROOT / "requirements" / file).read_text("utf-8")
    parts = [part for part in re.split(r"(?m)^(?=[a-z0-9])", text) if not part.startswith("#")]
    found = []
    for part in parts:
        requirement = Requirement(part.partition("\\\n")[0].strip())
        (only,) = requirement.specifier
        assert only.operator == "==", part
        found.append(
            Pin(requirement.name, Version(only.version), re.findall(r"--hash=sha256:[0-9a-f]{64}\b", part), part)
        )
    return found


def wanted(file: str) -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    chosen = {"runtime.txt": ["demo"], "image.txt": ["postgres"]}.get(file, list(extras))
    texts = [*PROJECT["dependencies"], *(text for name in chosen for text in extras[name])]
    return [one for one in map(Requirement, texts) if one.name not in {"schedulearn", *OF_THE_MACHINE}]


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_a_locked_package_is_known_by_its_hash(file: str) -> None:
    found = pins(file)
    assert len(found) > 50
    for pin in found:
        assert pin.hashes, pin.name
        assert pin.name not in OF_THE_MACHINE
    tools = {"hatchling"} if file == "image.txt" else {"pip", "hatchling", "editables"}
    assert tools <= {pin.name for pin in found}, "what installs and builds is locked, too"


@pytest.mark.parametrize("file", FILES)
def test_the_lock_says_nothing_of_where_packages_come_from(file: str) -> None:
    text = (ROOT / "requirements" / file).read_text("utf-8")
    assert not re.search(r"://|--index|--extra|--find|@ ", text)


@pytest.mark.parametrize("file", FILES)
def test_the_lock_has_all_that_is_asked_for_in_the_right_version(file: str) -> None:
    """Else: `make lock`."""
    found = pins(file)
    for requirement in wanted(file):
        versions = [pin.version for pin in found if pin.name == requirement.name.lower().replace("_", "-")]
        assert versions, f"{requirement} is not locked"
        assert all(requirement.specifier.contains(version) for version in versions), requirement


def test_all_locks_agree() -> None:
    largest = {(pin.name, pin.version) for pin in pins("dev.txt")}
    for file in FILES:
        assert {(pin.name, pin.version) for pin in pins(file)} <= largest


@pytest.mark.parametrize("file", FILES)
def test_nothing_that_is_locked_has_a_known_hole(file: str) -> None:
    for pin in pins(file):
        if pin.name in HOLES:
            safe, advisory = HOLES[pin.name]
            assert pin.version >= Version(safe), (pin.name, advisory)


def test_nothing_that_is_allowed_has_a_known_hole() -> None:
    """Whoever installs without the lock gets no version with a hole either."""
    for requirement in [*wanted("dev.txt"), *map(Requirement, PROJECT["optional-dependencies"]["torch"])]:
        if requirement.name not in HOLES:
            continue
        lowest = min(Version(one.version) for one in requirement.specifier if one.operator in (">=", "=="))
        assert lowest >= Version(HOLES[requirement.name][0]), requirement


# --- what is declared, and what is used

OF_OTHERS = {"pydantic-core": "pydantic"}  # imported as a part of
THROUGH_OTHERS = {
    "httptools": "uvicorn's parser, which the API's listener builds on",
    "websockets": "uvicorn's protocol for the page's sockets",
}
IN_JOBS = {"torch", "keras", "tensorflow", "horovod"}  # the user's own, where a job has them


def imported() -> Iterator[str]:
    """The packages of others that the product imports, by the name under which they are installed."""
    known = packages_distributions()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for top in {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"schedulearn"}:
                name = known.get(top, [top])[0].lower().replace("_", "-")
                yield OF_OTHERS.get(name, name)


@pytest.mark.slow
def test_what_is_imported_is_declared_and_nothing_else_is() -> None:
    used = set(imported()) - IN_JOBS
    optional = {
        Requirement(text).name for name in ("demo", "postgres") for text in PROJECT["optional-dependencies"][name]
    }
    declared = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert used <= declared | optional
    for name in declared - used - set(THROUGH_OTHERS):
        assert name in HOLES, f"{name} is not imported, and no hole is known that an older one had: leave it out"
