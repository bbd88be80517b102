"""`scripts/test`: what failed beside others is run once more, alone, and is named if it passes then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = "from support.summary import pytest_addoption, pytest_terminal_summary\n"
# Fails the first time only.
UNSTEADY = """
import pathlib, pytest
pytestmark = pytest.mark.xdist_group("test_scratch.py")
seen = pathlib.Path(__file__).with_name("seen")
def test_unsteady():
    first = not seen.exists()
    seen.touch()
    assert not first
"""


def look(folder: Path, tests: str, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_scratch.py").write_text(tests + "def test_steady():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", *more]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(
        [ROOT / "scripts" / "test", *command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_unsteady_test_is_named(tmp_path: Path) -> None:
    done = look(tmp_path, UNSTEADY, "-n", "1", "--dist", "loadgroup")
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("(failed beside others, passed alone):\ntest_scratch.py::test_unsteady\n")


def test_a_fault_fails_again(tmp_path: Path) -> None:
    done = look(tmp_path, "def test_broken():\n    assert False\n")
    assert done.returncode == 1
    assert done.stdout.count("1 failed") == 2


def test_many_faults_are_not_looked_at_twice(tmp_path: Path) -> None:
    done = look(tmp_path, "".join(f"def test_broken_{n}():\n    assert False\n" for n in range(6)))
    assert done.returncode == 1
    assert done.stdout.count("6 failed") == 1
