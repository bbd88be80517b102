"""The wheel has all files, and without the source tree it starts, runs a job and shows the page."""

import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import schedulearn
from support.pages import ROOT
from support.service import PATIENCE, kill_jobs

JOB = "from schedulearn import job; print(job.__file__); job.report(step=1, loss=0.25)"
PYTHON = f"{sys.base_prefix}/bin/python3"  # of the machine, where Schedulearn is not installed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE * 2)
    (built,) = folder.glob("*.whl")
    return built


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and what it depends on, and nothing that leads to the source tree."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "home" / ".schedulearn"

    def run(self, program: str, *words: str) -> str:
        env = {"HOME": str(self.root / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        done = subprocess.run(
            [self.root / "venv" / "bin" / program, *words],
            cwd=self.root / "empty", env=env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE * 2,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def installed(tmp_path: Path, wheel: Path) -> Iterator[Installed]:
    for name in ("home", "empty"):
        (tmp_path / name).mkdir()
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", *install], check=True, timeout=PATIENCE)
    # What it depends on is not downloaded again. A .pth in there, which may lead to the source tree, is not followed.
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    yield Installed(tmp_path)
    kill_jobs(tmp_path / "home" / ".schedulearn")


def test_the_wheel_has_every_file_of_the_package_and_the_version(wheel: Path) -> None:
    source = ROOT / "src"
    wanted = {file.relative_to(source) for file in (source / "schedulearn").rglob("*") if file.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name) for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {path for path in wanted if "__pycache__" not in path.parts}
    assert wheel.name.startswith(f"schedulearn-{schedulearn.__version__}-")


@pytest.mark.slow
def test_it_starts_runs_a_job_and_shows_the_page(installed: Installed) -> None:
    where = installed.run("python", "-c", "import schedulearn; print(schedulearn.__file__)")
    assert where.startswith(str(installed.root / "venv"))
    trusted = ["--root-jobs"] if os.geteuid() == 0 else []
    said = installed.run("schedulearn", "up", "--detach", "--port", "0", *trusted)
    try:
        ran = installed.run("schedulearn", "run", "--name", "first", "--", PYTHON, "-c", JOB)
        assert str(installed.data) in ran, "the library came with the service"
        assert "0.25" in installed.run("schedulearn", "describe", "1")
        shows_the_page(re.search(r"http://127\.0\.0\.1:\d+", said)[0])  # type: ignore[index]
    finally:
        installed.run("schedulearn", "down")
    assert "No service runs" in installed.run("schedulearn", "down")


def shows_the_page(url: str) -> None:
    page = fetched(f"{url}/login")
    assert "Schedulearn" in page
    parts = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert len(parts) >= 3
    assert all(fetched(url + part) for part in parts)


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return str(answer.read().decode())
