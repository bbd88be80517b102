"""What one call of `schedulearn.job.report` costs the training program."""

import subprocess
import sys
from pathlib import Path

from bench.figures import Figures
from bench.service import environment, folder, running

_CALLS = 20_000  # as many as are kept in memory without thinning
_PROGRAM = f"""
import time
from schedulearn import job
job.report(step=0, loss=1.0)
begin = time.perf_counter()
for step in range({_CALLS}):
    job.report(step=step, loss=0.5, accuracy=0.9)
print((time.perf_counter() - begin) / {_CALLS} * 1e6)
"""

# All that a report takes of the program's own CPU time, in the background too, with a service that takes them.
_TRAINING = """
import statistics, time
from schedulearn import job
def block(count=2000):
    begin = time.process_time()
    for step in range(count):
        job.report(step=step, loss=0.5, accuracy=0.9)
    job.flush(10)
    return (time.process_time() - begin) / count
block()
print(statistics.median(block() for _ in range(9)))
"""


def measure() -> Figures:
    figures = Figures("schedulearn.job.report(step=…, loss=…, accuracy=…), one call")
    with folder() as root:
        outside = _run(root, {})
        figures.add("outside of a job", outside, "µs")
        inside = _run(root, _as_worker(root))
        figures.add("in a job, the service is away", inside, "µs", against=f"{inside / outside:.0f} × as outside")
    whole = _training() * 1e6
    part = f"{whole / 10:.2g} % of a step of 1 ms"
    figures.add("in a job, with all that is sent to the service", whole, "µs", aim=10.0, against=part)
    return figures


def _training() -> float:
    """Seconds of CPU time for one report."""
    with running() as service, service.client() as client:
        job = client.submit({"command": [sys.executable, "-c", _TRAINING]})["id"]
        client.wait(job, timeout=120)
        return float(b"".join(client.logs(job)))


def _run(root: Path, more: dict[str, str]) -> float:
    words = [sys.executable, "-c", _PROGRAM]
    return float(subprocess.run(words, env={**environment(root), **more}, capture_output=True, check=True).stdout)


def _as_worker(root: Path) -> dict[str, str]:
    """Nobody listens on port 9: every report goes to the spool."""
    (root / "token").write_text("sl_bench")
    return {
        "SCHEDULEARN_WORKER": "1.1.0",
        "SCHEDULEARN_ATTEMPT": "1.1",
        "SCHEDULEARN_JOB_ID": "1",
        "SCHEDULEARN_URL": "http://127.0.0.1:9",
        "SCHEDULEARN_TOKEN_FILE": str(root / "token"),
        "SCHEDULEARN_SPOOL": str(root / "spool.jsonl"),
    }
