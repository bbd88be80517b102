"""Trainings with two threads, alone and side by side: with OpenMP as it is, and with `OMP_WAIT_POLICY=PASSIVE`.

Both kinds take turns in every round, so what else the machine does meanwhile falls on both alike.
"""

import os
import subprocess
import sys

from bench.figures import Figures, median

ROUNDS = 5
_SECONDS = 3.0
_SCRIPT = """
import sys, time, torch
torch.manual_seed(0)
torch.set_num_threads(2)
model = torch.nn.Sequential(*(m for _ in range(6) for m in (torch.nn.Linear(256, 256), torch.nn.ReLU())))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
inputs = torch.randn(256, 256)
def step():
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
step()
print("ready", flush=True)
sys.stdin.readline()
steps, end = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    step()
    steps += 1
print(steps)
"""
_KINDS = {"spinning": {}, "passive": {"OMP_WAIT_POLICY": "PASSIVE"}}


def measure() -> Figures:
    figures = Figures("steps a second of trainings with two threads each, all together")
    for count, where in ((1, "alone"), (2, "two side by side"), (3, "three side by side")):
        speeds: dict[str, list[float]] = {kind: [] for kind in _KINDS}
        for _ in range(ROUNDS):
            for kind, env in _KINDS.items():
                speeds[kind].append(_together(count, env))
        spinning, passive = (median(speeds[kind]) for kind in ("spinning", "passive"))
        figures.add(f"{where}, spinning", spinning, "/s")
        figures.add(f"{where}, passive", passive, "/s", against=f"{passive / spinning:.2f} × as spinning")
    return figures


def _together(count: int, env: dict[str, str]) -> float:
    """Steps a second of so many trainings that begin at the same time."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    command = [sys.executable, "-c", _SCRIPT, str(_SECONDS)]
    started = [
        subprocess.Popen(command, env=clean | env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for training in started:
        assert training.stdout
        training.stdout.readline()
    steps = _race(started)
    return sum(int(text) for text in steps) / _SECONDS


def _race(started: list[subprocess.Popen[str]]) -> list[str]:
    """Let all go before anybody is waited for."""
    for training in started:
        assert training.stdin
        training.stdin.write("go\n")
        training.stdin.flush()
    return [training.communicate()[0] for training in started]
