"""The base of Schedulearn's own image: the usual one with all that Schedulearn needs of Python's packages in it.

They are copied from where this test runs, so that building the image asks no index of packages.
"""

import shutil
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from support.base_image import CHANGES, as_root, base_image, linked

ROOT = Path(__file__).resolve().parents[2]
BASE = "schedulearn-test-python"
_PACKAGES = Path(f"usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages")


def make_base(client: Any, ssh: str) -> None:
    """Make the image `BASE` on an engine; `ssh` is the program that servers elsewhere are reached with."""
    with tempfile.TemporaryDirectory(prefix="schedulearn-image-") as folder:
        archive = Path(folder, "image.tar")
        shutil.copy(base_image(), archive)
        _add(archive, Path(ssh))
        client.api.import_image_from_file(str(archive), BASE, "latest", changes=[*CHANGES, "ENV PIP_NO_INDEX=1"])


def _add(archive: Path, ssh: Path) -> None:
    files = {_PACKAGES / name: path for one in _needed() for name, path in _files(one)}
    programs = [ssh, *(path for path in files.values() if ".so" in path.suffixes)]
    system = {place: path for place, path in linked(programs).items() if place.parts[1] != "local"}
    with tarfile.open(archive, "a") as tar:
        there = set(map(Path, tar.getnames()))  # an engine takes no archive that names a file twice
        for place, path in {**files, **system, Path("usr/bin/ssh"): ssh}.items():
            if place not in there:
                tar.add(path.resolve(), str(place), recursive=False, filter=as_root)


def _needed() -> list[Distribution]:
    """What pyproject.toml asks for, to run the service and to build it, and what that asks for in turn."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    waiting = [Requirement(text) for text in [*asked, *project["project"]["optional-dependencies"]["postgres"]]]
    found: dict[str, Distribution] = {}
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) not in seen:
            seen.add(str(requirement))
            found[requirement.name] = distribution(requirement.name)
            waiting += _asked_by(found[requirement.name], requirement.extras)
    return list(found.values())


def _asked_by(one: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, one.requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _files(one: Distribution) -> Iterator[tuple[str, Path]]:
    """Programs lie outside of the packages' own folder; nobody needs them."""
    for file in one.files or ():
        path = Path(str(file.locate()))
        if ".." not in file.parts and "tests" not in file.parts and path.is_file():
            yield str(file), path
