"""How long a training stands still while its number of workers changes: hot, by torchrun's own way, and by a restart.

The same small model trains in all three. Each worker writes down when it has done a step. The pause lasts from the last
step that anybody did with the old workers until each of the new ones has done one.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figures import Figures, median
from bench.service import environment, folder, running
from schedulearn.client import Client

_REPEATS = 3
_PATIENCE = 120.0  # seconds; by then something is wrong
_AIM = 1.0  # second

_COMMON = """
import os, sys, time
from pathlib import Path
import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
x = torch.randn(512, 64)
y = x[:, :1] * 2
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
notes = open(Path(os.environ["STEPS"]) / str(os.getpid()), "a", buffering=1)

def note(size):
    notes.write(f"{time.time()} {size}\\n")
    time.sleep(0.02)
"""

_HOT = (
    _COMMON
    + """
from schedulearn.job.torch import Trainer
trainer = Trainer(model, optimizer)
for batch in trainer.batches(512, 64, 100_000):
    trainer.step(mse_loss(model(x[batch]), y[batch]))
    note(trainer.size)
"""
)

# As a careful user of torchrun would write it: it saves every second, and when it is told to stop.
_PLAIN = (
    _COMMON
    + """
import signal
import torch.distributed as dist
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
kept = Path(os.environ["KEPT"])
if kept.exists():
    model.load_state_dict(torch.load(kept))
def save(*_):
    if rank == 0:
        torch.save(model.state_dict(), kept.with_suffix(".new"))
        os.replace(kept.with_suffix(".new"), kept)
def stop(*_):
    save()
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
saved = time.monotonic()
while True:
    batch = torch.randint(0, 512, (64 // size,))
    loss = mse_loss(model(x[batch]), y[batch])
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    note(size)
    if time.monotonic() - saved > 1:
        save()
        saved = time.monotonic()
"""
)


def measure() -> Figures:
    figures = Figures("how long a training stands still while it is resized (the same model, 3 times each, medians)")
    hot = _repeat(_hot)
    restart = _repeat(_restart)
    torchrun = median([_torchrun() for _ in range(_REPEATS)])
    figures.add(
        "hot, 1 to 2 workers", hot[0], "s", aim=_AIM, against=f"{torchrun / hot[0]:.0f} × shorter than torchrun"
    )
    figures.add("hot, 2 to 1 workers", hot[1], "s", aim=_AIM)
    figures.add("torchrun's elastic restart, 1 to 2", torchrun, "s", against=f"{torchrun / hot[0]:.1f} × as hot")
    figures.add("save, stop, start, 1 to 2", restart[0], "s", against=f"{restart[0] / hot[0]:.1f} × as hot")
    figures.add("save, stop, start, 2 to 1", restart[1], "s", against=f"{restart[1] / hot[1]:.1f} × as hot")
    figures.note("torchrun waits 1 s for further workers (last_call_timeout); by default it would be 30 s")
    return figures


def _repeat(once: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    found = [once() for _ in range(_REPEATS)]
    return median([grown for grown, _ in found]), median([shrunk for _, shrunk in found])


# --- under Schedulearn


def _hot() -> tuple[float, float]:
    return _resized({"launcher": "elastic", "command": [sys.executable, "train.py"]}, _HOT)


def _restart() -> tuple[float, float]:
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    return _resized({"command": [torchrun, "train.py"], "preemptible": True}, _PLAIN)


def _resized(spec: dict[str, object], program: str) -> tuple[float, float]:
    """Seconds that it stood still when it grew from 1 to 2 workers, and when it shrank again."""
    with running() as service, service.client() as client, folder() as root:
        steps, work = root / "steps", root / "work"
        steps.mkdir()
        work.mkdir()
        (work / "train.py").write_text(program)
        env = {"STEPS": str(steps), "KEPT": str(root / "kept.pt"), "OMP_NUM_THREADS": "1", "PATH": os.environ["PATH"]}
        whole = {"name": "resize", "workers": "1..2", "env": env, "resources": {"cpus": 0.5}, **spec}
        number = client.submit(whole, workdir=work)["id"]
        _wait(steps, 1)
        grown = _pause_of(client, number, steps, 2)
        shrunk = _pause_of(client, number, steps, 1)
        client.cancel(number)
        return grown, shrunk


def _pause_of(client: Client, number: int, steps: Path, size: int) -> float:
    before = _wait(steps, 3 - size)
    client.update(number, workers=str(size))
    return _wait(steps, size, after=before) - max(at for at, was in _notes(steps) if was == 3 - size)


# --- torchrun alone


def _torchrun() -> float:
    with folder() as root:
        steps = root / "steps"
        steps.mkdir()
        (root / "train.py").write_text(_PLAIN)
        with _agent(root, port := _free_port()):
            before = _wait(steps, 1)
            with _agent(root, port):
                return _wait(steps, 2, after=before) - max(at for at, was in _notes(steps) if was == 1)


@contextmanager
def _agent(root: Path, port: int) -> Iterator[None]:
    words = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=5"]
    words += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-conf=last_call_timeout=1"]
    words += ["--local-addr=127.0.0.1"]
    env = {"STEPS": str(root / "steps"), "KEPT": str(root / "kept.pt"), "OMP_NUM_THREADS": "1"}
    # In torch 2.13 a newcomer waits for ever unless each round has a store of its own.
    env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    quiet = subprocess.DEVNULL
    agent = subprocess.Popen(
        [*words, str(root / "train.py")], env={**environment(root), **env}, stdout=quiet, stderr=quiet
    )
    try:
        yield
    finally:
        agent.send_signal(signal.SIGKILL)
        agent.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# --- what the workers wrote down


def _notes(steps: Path) -> list[tuple[float, int]]:
    """(when, with how many workers), of all steps of all workers."""
    lines = [line.split() for file in steps.iterdir() for line in file.read_text().splitlines()]
    return [(float(words[0]), int(words[1])) for words in lines if len(words) == 2]


def _wait(steps: Path, size: int, after: float = 0.0) -> float:
    """When so many workers had each done a few steps together; the time of the first step of the last of them."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        firsts = [first for file in steps.iterdir() if (first := _first(file, size, after)) is not None]
        if len(firsts) >= size:
            return max(firsts)
        time.sleep(0.02)
    raise RuntimeError(f"no {size} workers trained together")


def _first(file: Path, size: int, after: float) -> float | None:
    lines = [line.split() for line in file.read_text().splitlines()]
    found = [float(at) for at, was in (words for words in lines if len(words) == 2) if int(was) == size]
    later = [at for at in found if at > after]
    return later[0] if len(later) >= 5 else None
