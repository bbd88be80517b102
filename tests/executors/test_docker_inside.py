"""What programs in containers find on their path, and how their threads follow a limit. Real engines."""

from typing import Any

import pytest

from schedulearn.core.domain.events import LimitsSet
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common import control
from schedulearn.executors.docker.executor import DockerExecutor
from support.bench import DEADLINE
from support.docker_bench import DockerBench
from support.fake_torch import FAKE_TORCH

PROGRAM = f"""
import os, time
open("torch.py", "w").write({FAKE_TORCH!r})
import torch
last = 0
while True:
    now = torch.get_num_threads()
    if now != last:
        print(now, flush=True)
        last = now
    time.sleep(0.01)
"""


def test_the_library_is_there_in_any_image(containers: DockerBench) -> None:
    code = "import os; from schedulearn import job; job.report(step=1, loss=0.5); print(job.info().worker)\n"
    code += "print(os.environ['PYTHONPATH'])"
    launch = containers.python(code, spec={"env": {"PYTHONPATH": "/mine"}})
    assert containers.run(launch).ok, containers.output(launch)
    assert containers.output(launch) == b"1.1.0\n/schedulearn/inside:/mine\n"


def test_threads_follow_the_limit(containers: DockerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that changes without us is seen in the control group; ours is acknowledged before it holds."""
    heard: list[Any] = []
    write = DockerExecutor._put_limits

    def watched(executor: DockerExecutor, worker: WorkerId, limits: Limits) -> Limits:
        ack = executor._ack(worker, containers.paths(launch))
        heard.append((limits.cpus, ack and ack.threads))
        return write(executor, worker, limits)

    monkeypatch.setattr(DockerExecutor, "_put_limits", watched)
    monkeypatch.setattr(control, "ACK_WITHIN", DEADLINE)  # the order is tested, not the machine's speed
    launch = containers.launch(("python3", "-c", PROGRAM), cpu_limit=2.0)
    executor = containers.executor()
    executor.start(launch)

    def said(text: str) -> None:
        containers.until(lambda: containers.output(launch).decode().split() == text.split(), f"it says {text}")

    said("2")
    with containers.daemon.client() as client:
        client.api.update_container(containers.name(launch), cpu_period=100_000, cpu_quota=150_000)
        said("2 1")
        client.api.update_container(containers.name(launch), cpu_period=100_000, cpu_quota=200_000)
        said("2 1 2")
    executor.set_limits(launch.worker, launch.node, Limits(cpus=1.0))
    containers.recorder.wait(LimitsSet, launch.worker)
    said("2 1 2 1")
    executor.set_limits(launch.worker, launch.node, Limits(cpus=2.0))
    said("2 1 2 1 2")
    assert heard == [(1.0, 1), (2.0, 1)], "fewer threads before the limit, more after it"
    executor.stop(launch.worker, launch.node, 0)
    containers.ended(launch)
