"""The program of every job: it writes down its own starts and ends where the service has no hand in it.

One file for each job, opened to append, one write for each line. A lock that the kernel takes back when the process is
gone, however it went, tells whether two runs of the same worker were there at once.
"""

from pathlib import Path
from typing import NamedTuple

FAILED = 3  # the exit code of a job that is meant to fail

PROGRAM = """
import fcntl, os, signal, sys, time
diary, seconds, code, stubborn = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "stubborn"
_, attempt, rank = os.environ["SCHEDULEARN_WORKER"].split(".")
book = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

def note(what, code=0):
    at = time.clock_gettime(time.CLOCK_BOOTTIME)
    os.write(book, f"{what} {attempt} {rank} {os.getpid()} {at:.6f} {code}\\n".encode())

def leave(*_):
    note("stop", 143)
    os._exit(143)

signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else leave)
lock = os.open(f"{diary}.{rank}.lock", os.O_WRONLY | os.O_CREAT, 0o666)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    note("overlap")
note("begin")
print("begin", attempt, flush=True)
time.sleep(seconds)
print("end", attempt, flush=True)
note("end", code)
os._exit(code)
"""


class Line(NamedTuple):
    """What one run of one worker wrote."""

    what: str  # begin, end (by itself), stop (it was told to), overlap (another run of it was still there)
    attempt: int
    rank: int
    pid: int
    at: float  # seconds since the boot of the machine
    code: int = 0


def read(file: Path) -> list[Line]:
    """A diary; empty if the job never ran."""
    if not file.exists():
        return []
    words = [line.split() for line in file.read_text().splitlines()]
    return [Line(w[0], int(w[1]), int(w[2]), int(w[3]), float(w[4]), int(w[5])) for w in words]
