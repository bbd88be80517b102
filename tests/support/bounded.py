"""Runs Python in a process that may use only so much: what takes longer, or more memory, than anybody could wait for
dies there instead of here."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_SOURCES = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]


def run_bounded(code: str, *words: object, cpu: int | None = None, memory: int | None = None) -> str:
    """What the code prints; fails if it does not end well. `cpu` in seconds, `memory` in bytes that it may add."""
    begin = f"import sys; sys.path[:0] = {_SOURCES!r}\n" + (_HOLD_MEMORY.format(memory) if memory else "")
    command = [sys.executable, "-c", begin + code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, preexec_fn=_cpu_limit(cpu), check=False)
    assert done.returncode == 0, f"it ended with {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


# The modules are loaded first: only what the code itself needs is bounded.
_HOLD_MEMORY = """
import resource
def hold():
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + {}
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
"""


def _cpu_limit(seconds: int | None) -> Callable[[], None] | None:
    return (lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))) if seconds else None
