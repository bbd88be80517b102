"""The crash test in full: 200 short jobs while the service is killed with -9 at 20 seeded points."""

import sys
import tempfile
from pathlib import Path

from bench.figures import Figures

JOBS, KILLS, SEED = 200, 20, 1
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # the same driver as the test in its small form

from support.crash import crash_test  # noqa: E402


def measure() -> Figures:
    figures = Figures(f"Crash test: {JOBS} jobs, the service killed {KILLS} times (seed {SEED})")
    with tempfile.TemporaryDirectory() as folder:
        report = crash_test(Path(folder), JOBS, KILLS, SEED)
    figures.add("jobs that succeeded", report.states.get("succeeded", 0), "")
    figures.add("problems (ran twice, overlapped, lease left)", len(report.problems), "", aim=0)
    figures.add("time", report.seconds, "s")
    for problem in report.problems[:10]:
        figures.note(problem)
    return figures
