"""Programs that know nothing of Schedulearn, in the process executor: their threads follow the CPU limit."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from schedulearn.core.domain.events import LimitsSet
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common import control
from schedulearn.executors.kernel.groups import Cgroups
from schedulearn.executors.process import executor as changing
from schedulearn.executors.process.executor import said_of_threads
from support.bench import DEADLINE, Workbench

pytestmark = pytest.mark.slow

# Each says how many threads it has when that has changed.
TORCH = """
import sys, threading, torch
model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(16, 32)

def train():
    last = 0
    while True:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        now = torch.get_num_threads()
        if now != last:
            print(now, flush=True)
        last = now
"""
IN_MAIN, IN_ANOTHER = TORCH + "train()\n", TORCH + "threading.Thread(target=train).start()\n"
OWN_CHOICE = TORCH.replace("model =", "torch.set_num_threads(3)\nmodel =", 1) + "train()\n"
SCIKIT_LEARN = """
import time, sklearn.cluster, threadpoolctl
last = 0
while True:
    now = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    if now != last and len(now) == 1:
        print(*now, flush=True)
        last = now
    time.sleep(0.01)
"""


def said(bench: Workbench, launch: Launch, text: str) -> None:
    bench.until(lambda: bench.output(launch).decode().split() == text.split(), f"the program says {text}")


def set_cpus(bench: Workbench, executor: Any, launch: Launch, cpus: float) -> LimitsSet:
    count = len(bench.recorder.found(LimitsSet, launch.worker)) + 1
    executor.set_limits(launch.worker, launch.node, Limits(cpus=cpus))
    event: LimitsSet = bench.recorder.wait(LimitsSet, launch.worker, count)
    return event


def stop(bench: Workbench, executor: Any, launch: Launch) -> None:
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


@pytest.fixture
def threads_when_limited(monkeypatch: pytest.MonkeyPatch, bench: Any) -> list[tuple[float | None, int]]:
    """Of each change: the new limit, and how many threads the worker says that it has when that comes to hold."""
    seen: list[tuple[float | None, int]] = []
    write: Callable[..., Limits] = changing.write_limits

    def watched(groups: Any, limits: Limits) -> Limits:
        ack = said_of_threads(bench.paths(bench.launch("")))
        seen.append((limits.cpus, ack.threads if ack else 0))
        return write(groups, limits)

    monkeypatch.setattr(changing, "write_limits", watched)
    monkeypatch.setattr(control, "ACK_WITHIN", DEADLINE)  # the order is tested, not the machine's speed
    return seen


@pytest.mark.parametrize("program", [IN_MAIN, IN_ANOTHER, SCIKIT_LEARN], ids=["main", "thread", "scikit-learn"])
def test_threads_follow_the_limit(
    bench: Any, real_cgroups: Cgroups, threads_when_limited: list[tuple[float, int]], program: str
) -> None:
    launch = bench.python(program, cpu_limit=2.0)
    executor = bench.executor(cgroups=real_cgroups)
    executor.start(launch)
    said(bench, launch, "2")
    assert set_cpus(bench, executor, launch, 1.5).threads_fixed is None
    said(bench, launch, "2 1")
    set_cpus(bench, executor, launch, 2.0)
    said(bench, launch, "2 1 2")
    assert threads_when_limited == [(1.5, 1), (2.0, 1)], "fewer threads before the limit, more after it"
    stop(bench, executor, launch)


def test_a_program_that_chose_its_number_is_left_alone(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.python(OWN_CHOICE, cpu_limit=2.0)
    executor = bench.executor(cgroups=real_cgroups)
    executor.start(launch)
    said(bench, launch, "3")
    for cpus in (1.0, 2.0):
        set_cpus(bench, executor, launch, cpus)
        bench.until(lambda: bench.paths(launch).ack.read_bytes() == b"", "nobody has to wait for it")
    assert bench.output(launch) == b"3\n"
    stop(bench, executor, launch)


@pytest.mark.parametrize(
    ("env", "shown"),
    [
        ({}, ["2", "2", "2", "2", True]),
        ({"OMP_NUM_THREADS": "4"}, ["4", "2", "2", None, False]),
        ({"MKL_NUM_THREADS": "4"}, ["2", "2", "2", None, False]),
        ({"TF_NUM_INTRAOP_THREADS": "1"}, ["2", "1", "2", "2", True]),
    ],
)
def test_a_number_in_the_jobs_own_environment_is_its_choice(
    bench: Any, env: dict[str, str], shown: list[object]
) -> None:
    names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "SCHEDULEARN_THREADS")
    code = f"import os, sys, json\nfound = [os.environ.get(name) for name in {names}]\n"
    code += "found.append(any(type(finder).__name__ == 'Watch' for finder in sys.meta_path))\nprint(json.dumps(found))"
    launch = bench.python(code, cpu_limit=2.5, spec={"env": env})
    assert bench.run(launch).ok
    assert json.loads(bench.output(launch)) == shown


def test_without_a_limit_nothing_is_chosen(bench: Any) -> None:
    code = "import os; print(repr([os.environ.get(n) for n in ('OMP_NUM_THREADS', 'SCHEDULEARN_THREADS')]))"
    launch = bench.python(code)
    assert bench.run(launch).ok
    assert bench.output(launch) == b"[None, '']\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as somebody else")
def test_a_job_with_its_own_user_reads_and_acknowledges(bench: Any) -> None:
    """And keeps its own path behind ours."""
    code = "import os, sys, schedulearn_hook\nopen(os.environ['SCHEDULEARN_ACK'], 'w').write('x')\n"
    code += "from schedulearn import job\nprint(os.environ['PYTHONPATH'].split(':')[1], '/mine' in sys.path)"
    launch = bench.launch(
        ("/usr/bin/env", "python3", "-c", code), uid=65534, gid=65534, spec={"env": {"PYTHONPATH": "/mine"}}
    )
    assert bench.run(launch).ok, bench.output(launch)
    assert bench.output(launch) == b"/mine True\n"
    assert bench.paths(launch).ack.read_bytes() == b"x"
