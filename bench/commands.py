"""What the command line itself takes, as a person waits for it."""

import subprocess
import sys

from bench.figures import Figures, median, timed
from bench.service import command, environment, running

_TIMES = 7


def measure() -> Figures:
    figures = Figures("The command line, wall time (median)")
    with running() as service:
        env = environment(service.data)

        def run(words: list[str]) -> float:
            return median([timed(lambda: subprocess.run(words, env=env, capture_output=True)) for _ in range(_TIMES)])

        bare = run([sys.executable, "-c", "pass"])
        figures.add("python alone", bare * 1e3, "ms")
        for words in (["--help"], ["ls"], ["ls", "--json"], ["nodes"], ["top", "--once"]):
            seconds = run(command(*words))
            ratio = f"{seconds / bare:.1f} × python alone"
            figures.add(f"schedulearn {' '.join(words)}", seconds * 1e3, "ms", against=ratio)
    return figures
