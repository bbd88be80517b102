"""torchrun with real training, and a stand-in for Horovod, on a real service."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import Client
from support.installed import needs
from support.jobs import output, spec, submit
from support.waiting import wait_until

LONG = 120.0  # seconds: torch alone takes many to import on a busy machine

pytestmark = pytest.mark.timeout(600)

# An ordinary script that knows nothing of Schedulearn but where its checkpoints belong: it saves after each epoch, and
# ends when the test makes the file GATE.
TRAIN = """
import os, pathlib
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
saved = pathlib.Path(os.environ["SCHEDULEARN_CHECKPOINT_DIR"], "last.pt")
epoch = 0
if saved.exists():
    kept = torch.load(saved)
    epoch = kept["epoch"]
    model.module.load_state_dict(kept["model"])
if rank == 0:
    print(f"{size} processes with {torch.get_num_threads()} threads go on at epoch {epoch}", flush=True)
over = torch.zeros(1)
while not over:
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(epoch * 64 + rank))
    loss = (model(x)[:, 0] - x.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    epoch += 1
    if rank == 0:
        torch.save({"epoch": epoch, "model": model.module.state_dict()}, saved.with_name("last.tmp"))
        os.replace(saved.with_name("last.tmp"), saved)
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
        over = torch.tensor([float(os.path.exists(os.environ["GATE"]))])
    dist.broadcast(over, 0)  # nobody may wait for one that has ended
dist.destroy_process_group()
os._exit(0)  # gloo's own threads may abort a program whose interpreter ends while they leave
"""
BEGAN = re.compile(r"(\d) processes with (\d) threads go on at epoch (\d+)")


@pytest.fixture
def elastic(client: Client) -> Iterator[Client]:
    if client.nodes()[0]["capacity"]["cpus"] < 2:
        pytest.skip("one core cannot be shared out")
    client.set_policy("elastic-fifo")
    yield client
    client.set_policy("fifo")


def began(client: Client, job: int, attempt: int) -> tuple[int, int, int]:
    """Processes, threads and first epoch of an attempt, once it trains."""

    def look() -> Any:
        text = output(client, job, attempt=attempt).decode() if client.job(job)["attempt"] >= attempt else ""
        return BEGAN.search(text) if "loss" in text else None

    found = wait_until(look, LONG, f"attempt {attempt} of job {job} trains")
    return int(found[1]), int(found[2]), int(found[3])


def test_torchrun_is_resized_by_a_restart_from_its_own_checkpoint(elastic: Client, tmp_path: Path) -> None:
    """Two jobs on one machine, one with the launcher and one with torchrun in its command: they do not collide."""
    needs("torch")
    gate, later = tmp_path / "gate", tmp_path / "later"
    (tmp_path / "train.py").write_text(TRAIN)
    path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # where torchrun is
    plain = spec(f"torchrun {tmp_path}/train.py", resources={"cpus": 1}, env={"GATE": str(later), **path})
    env = {"GATE": str(gate), **path}
    wrapped = spec(f"python {tmp_path}/train.py", launcher="torchrun", resources={"cpus": 1}, env=env)
    other = submit(elastic, plain)
    big = submit(elastic, {**wrapped, "workers": "1..2", "preemptible": "true", "steps": 10**7})
    assert began(elastic, other, 1) == (1, 1, 0)
    assert began(elastic, big, 1) == (1, 1, 0)
    assert [elastic.job(job)["state"] for job in (other, big)] == ["running", "running"]
    later.touch()
    assert elastic.wait(other, timeout=LONG)["state"] == "succeeded"
    wait_until(lambda: elastic.job(big)["workers"] == 2, LONG, "it has grown")
    processes, threads, epoch = began(elastic, big, 2)
    assert (processes, threads) == (2, 1)
    assert epoch > 0, "it went on where it had stopped"
    gate.touch()
    done = elastic.wait(big, timeout=LONG)
    assert (done["state"], done["resizes"], done["restarts"]) == ("succeeded", 1, 0)


def test_a_job_of_horovod_ends_with_its_first_worker(client: Client, tmp_path: Path) -> None:
    """The real Horovod has a test of its own."""
    program = tmp_path / "horovodrun"
    program.write_text('#!/bin/sh\necho "$@, rank ${RANK:-unset}"\n')
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    job = submit(client, spec("python train.py", launcher="horovod", workers=2, env=env))
    done = client.wait(job, timeout=LONG)
    assert (done["state"], done["attempt"]) == ("succeeded", 1)
    ran = "--gloo --network-interfaces lo -np 2 -H localhost:2 /bin/sh -c python train.py, rank unset\n"
    assert output(client, job).decode() == ran
