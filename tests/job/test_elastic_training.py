"""Workers come and go while a model is trained, and the result is that of one worker that was never disturbed."""

import json
import os
import signal
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn import job
from schedulearn.job.data import Plan
from support.elastic import PATIENCE, Api, Crew, Starter
from support.installed import needs
from support.waiting import wait_until

pytestmark = pytest.mark.slow

needs("torch")

SAMPLES, BATCH = 45, 7  # the last batch of an epoch has three samples: with three workers one each, with two uneven
PROGRAM = f"""
import json, os, sys, time
import torch
from schedulearn.job.torch import Trainer

torch.manual_seed(int(os.environ.get("WEIGHTS", 1)))
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
torch.manual_seed(2)
x = torch.randn({SAMPLES}, 5)
y = x.sum(dim=1, keepdim=True).sin()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 40, 0.97)
trainer = Trainer(model, optimizer, scheduler, timeout=3.0, save_every=3600.0)
with open(sys.argv[1], "a", buffering=1) as notes:
    for indices in trainer.batches({SAMPLES}, {BATCH}, epochs=int(os.environ["EPOCHS"]), seed=5):
        note = {{"step": trainer.steps, "rank": trainer.rank, "size": trainer.size, "indices": indices.tolist()}}
        print(json.dumps({{**note, "done": False}}), file=notes)
        if trainer.step(torch.nn.functional.mse_loss(model(x[indices]), y[indices])) is not None:
            print(json.dumps({{**note, "done": True}}), file=notes)
        time.sleep(float(os.environ.get("PACE", 0)))
weights = [value for p in model.parameters() for value in p.flatten().tolist()]
print(json.dumps({{"weights": weights, "steps": trainer.steps}}))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(PROGRAM))
    return file


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    api.start()
    yield api
    api.close()


@pytest.fixture
def crews(api: Api, starter: Starter, program: Path, tmp_path: Path) -> Iterator[list[Crew]]:
    """Two attempts of one job."""
    crews = [
        Crew(api, starter, 1, program, tmp_path / "first", {"EPOCHS": "100000", "PACE": "0.01"}),
        Crew(api, starter, 2, program, tmp_path / "second", {"PACE": "0.002"}),
    ]
    yield crews
    for crew in crews:
        crew.close()


def alone(starter: Starter, program: Path, epochs: int) -> Any:
    """The same training by one worker, outside of Schedulearn."""
    output = program.with_name("alone")
    assert starter.start(program, os.devnull, env={"EPOCHS": str(epochs)}, output=output).wait() == 0, (
        output.read_text()
    )
    return json.loads(output.read_text())


def check_samples(notes: list[dict[str, Any]]) -> int:
    """Every step until the last was done once, by one group, and its shares are the batch of the plan."""
    plan = Plan(SAMPLES, BATCH, 5)
    shares: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(dict)
    sizes: dict[int, set[int]] = defaultdict(set)
    for note in notes:
        shares[note["step"], note["size"]][note["rank"]] = note["indices"]
        if note["done"]:
            sizes[note["step"]].add(note["size"])
    for step in range(max(sizes) + 1):
        assert len(sizes[step]) == 1, f"step {step} was done by groups of the sizes {sizes[step]}"
        taken = shares[step, sizes[step].pop()]
        assert Counter(i for part in taken.values() for i in part) == Counter(plan.batch(step)[1]), step
    return max(sizes) + 1


def test_workers_come_and_go_and_the_result_is_that_of_one(
    api: Api, starter: Starter, crews: list[Crew], program: Path, tmp_path: Path
) -> None:
    crew, second = crews
    saves = {"SCHEDULEARN_CHECKPOINT_DIR": str(tmp_path / "checkpoint")}

    # One worker trains on while the service is away.
    crew.regroup(0, [0], [0])
    crew.start(0, **saves)
    crew.until_trained_by(0, size=1)
    api.stop()
    crew.until_trained_by(0, size=1)
    # Two join, one after the other. They begin with weights of their own, and have no checkpoint to read.
    crew.regroup(1, [0, 1], [0, 1])
    crew.start(1, WEIGHTS="11", **saves)
    api.start()
    crew.until_trained_by(1, size=2)
    crew.regroup(2, [0, 1, 2], [0, 1, 2])
    crew.start(2, WEIGHTS="12")
    crew.until_trained_by(0, size=3, steps=10)
    # One is killed while the service is away; the others go on once they are told that it is gone.
    crew.workers[2].signal(signal.SIGKILL)
    api.stop()
    crew.regroup(3, [0, 1], [0, 1])
    api.start()
    crew.until_trained_by(1, size=2)
    # The leader leaves. Its control file is the last to be written.
    crew.regroup(4, [1], [1])
    crew.until_trained_by(1, size=2)
    crew.regroup(4, [1], [0])
    assert crew.end(0) == 0
    assert "weights" not in crew.output(0), "a worker that leaves does nothing after the loop"
    crew.until_trained_by(1, size=1)
    # Another joins; then one stands still for longer than the others wait, and they meet again.
    crew.regroup(5, [1, 3], [1, 3])
    crew.start(3, WEIGHTS="13")
    crew.until_trained_by(3, size=2)
    losses = crew.output(1).count("a worker was lost")
    crew.workers[3].signal(signal.SIGSTOP)
    wait_until(lambda: crew.output(1).count("a worker was lost") > losses, PATIENCE)
    crew.workers[3].signal(signal.SIGCONT)
    crew.until_trained_by(3, size=2)
    # Both are asked to stop: they do so at the same step, and one of them saves.
    for rank in (1, 3):
        crew.workers[rank].signal(signal.SIGTERM)
    assert [crew.end(rank) for rank in (1, 3)] == [128 + signal.SIGTERM] * 2
    notes = [note for rank in range(4) for note in crew.steps(rank)]
    done = check_samples(notes)
    last = job.latest(folder=tmp_path / "checkpoint")
    assert last is not None
    assert last.step == done

    # The next attempt begins from there with two workers, and comes to the end. A third is too late to join.
    epochs = done // Plan(SAMPLES, BATCH).steps_per_epoch + 3
    second.regroup(0, [0, 1], [0, 1])
    second.start(0, EPOCHS=str(epochs), WEIGHTS="20", **saves)
    second.start(1, EPOCHS=str(epochs), WEIGHTS="21")
    second.until_trained_by(0, size=2)
    second.regroup(1, [0, 1, 2], [2])
    second.start(2, EPOCHS=str(epochs))
    assert [second.end(rank) for rank in range(3)] == [0, 0, 0], second.output(0)
    assert "weights" not in second.output(2)
    assert not second.steps(2)
    notes += [note for rank in range(2) for note in second.steps(rank)]
    assert check_samples(notes) == epochs * Plan(SAMPLES, BATCH).steps_per_epoch

    expected = alone(starter, program, epochs)
    for rank in (0, 1):
        result = json.loads(second.output(rank).splitlines()[-1])
        assert result["steps"] == expected["steps"]
        assert result["weights"] == pytest.approx(expected["weights"], rel=1e-3, abs=1e-5)

    # How long the training stood still at each change was reported.
    wait_until(lambda: {point.value for point in api.store.curve(api.job, "workers")} >= {2, 3})
    assert all(point.value > 0 for point in api.store.curve(api.job, "regroup_seconds"))


ALONE = """
import copy, os, sys
import torch
from schedulearn.job.gradients import Gradients
from schedulearn.job.torch import Trainer

def refused(error, do):
    try:
        do()
    except error as problem:
        return str(problem)
    raise AssertionError("it was not refused")

def parts():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Dropout(0.5), torch.nn.Linear(6, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

def train(trainer, batches, steps):
    for indices in batches:
        trainer.step((trainer.model(x[indices]) ** 2).mean())
        if trainer.steps == steps:
            return

x = torch.randn(10, 4)

# A state goes on elsewhere as if nothing had happened, dropout and learning rate included.
first = Trainer(*parts(), scheduler_every="epoch", clip_norm=1.0)
batches = first.batches(10, 4, epochs=4)
train(first, batches, 5)
state = copy.deepcopy(first.state_dict())
assert first.scheduler.get_last_lr() == [0.005], "one epoch is over"
train(first, batches, 12)
second = Trainer(*parts(), scheduler_every="epoch", clip_norm=1.0)
batches = second.batches(10, 4, epochs=4)
second.step(second.model(x[next(batches)]).sum())
second.load_state_dict(state)
train(second, batches, 12)
for one, other in zip(first.model.parameters(), second.model.parameters()):
    assert torch.equal(one, other)

# What is wrong is said in words.
trainer = Trainer(*parts())
assert "once for every batch" in refused(RuntimeError, lambda: trainer.step(torch.zeros(1)))
batches = trainer.batches(10, 4)
assert "asked for once" in refused(RuntimeError, lambda: trainer.batches(10, 4))
next(batches)
assert "once for every batch" in refused(RuntimeError, lambda: next(batches))
assert "batch_size" in refused(ValueError, lambda: Trainer(*parts()).batches(10, 0))
assert '"step" or "epoch"' in refused(ValueError, lambda: Trainer(*parts(), scheduler_every="day"))
os.environ["TORCHELASTIC_RUN_ID"] = "1"
assert "without torchrun" in refused(RuntimeError, lambda: Trainer(*parts()))

# A gradient that nobody has stays away; one that only others have appears.
mine, others, nobodys = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
mine.grad = torch.tensor([2.0, 4.0])
gradients = Gradients([mine, others, nobodys])
numbers = gradients.collect(0.5, [1.0])
gradients.buffer[2:4] = 7.0
gradients.buffer[7] = 1.0  # another worker has it
gradients.hand_back()
assert mine.grad.tolist() == [1.0, 2.0]
assert others.grad.tolist() == [7.0, 7.0]
assert nobodys.grad is None
embedding = torch.nn.Embedding(5, 2, sparse=True)
embedding(torch.tensor([1])).sum().backward()
assert "sparse=False" in refused(ValueError, lambda: Gradients(list(embedding.parameters())).collect(1.0, []))
"""


def test_alone_the_trainer_keeps_its_promises(starter: Starter, tmp_path: Path) -> None:
    program, output = tmp_path / "alone.py", tmp_path / "output"
    program.write_text(ALONE)
    assert starter.start(program, env={}, output=output).wait() == 0, output.read_text()
