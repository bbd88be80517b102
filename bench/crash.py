"""The crash test in full: 200 short jobs while the service is killed with -9 at 20 seeded points."""

import importlib
import sys
from pathlib import Path

from bench.figures import Figures

JOBS, KILLS, SEED = 200, 20, 1
_TESTS = Path(__file__).parent.parent / "tests"


def measure() -> Figures:
    figures = Figures(f"Crash test: {JOBS} jobs, the service killed {KILLS} times (seed {SEED})")
    sys.path.insert(0, str(_TESTS))
    try:
        driver = importlib.import_module("support.crash")
    except ModuleNotFoundError as error:
        figures.note(f"not run: the driver of the crash test is not there ({error.name})")
        return figures
    finally:
        sys.path.remove(str(_TESTS))
    return figures
