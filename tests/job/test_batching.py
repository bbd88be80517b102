"""A training whose batch size the scheduler chooses: learning rates, pieces, noise, and the way to the target."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.elastic import PATIENCE, Api, Crew, Starter
from support.installed import needs
from support.waiting import wait_until

pytestmark = pytest.mark.slow

needs("torch")

# A linear regression with noisy labels; the target is to have three quarters of the weights.
PROGRAM = """
import json, os, sys
import torch
from schedulearn.job.torch import Trainer

torch.manual_seed(3)
x = torch.randn(20_000, 10)
y = x @ torch.linspace(-1, 1, 10) + 20 * torch.randn(20_000)
torch.manual_seed(int(os.environ.get("WEIGHTS", 1)))
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0002)
rule, most = os.environ.get("RULE", "adascale"), os.environ.get("MOST")
trainer = Trainer(model, optimizer, lr_rule=rule, max_local_batch=int(most) if most else None, save_every=None)
true = torch.linspace(-1, 1, 10)
pieces, taken, target = 0, 0, None
with open(sys.argv[1], "a", buffering=1) as notes:
    for indices in trainer.batches(20_000, 16, epochs=4, seed=5):
        pieces, taken, before = pieces + 1, taken + len(indices), trainer.steps
        trainer.step(torch.nn.functional.mse_loss(model(x[indices])[:, 0], y[indices]))
        off = float((model.weight[0] - true).norm() / true.norm())
        if target is None and off < 0.25:
            target = trainer._seen
        if trainer._is_last and pieces % 10 == 0:
            note = {"size": trainer.size, "done": True, "whole": trainer._whole, "lr": optimizer.param_groups[0]["lr"]}
            print(json.dumps({**note, "noise": trainer._noise, "seen": trainer._seen, "pieces": pieces}), file=notes)
print(json.dumps({"target": target, "seen": trainer._seen, "steps": trainer.steps, "pieces": pieces,
                  "noise": trainer._noise, "weights": model.weight[0].tolist()}))
"""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    api.start()
    yield api
    api.close()


@pytest.fixture
def train(api: Api, starter: Starter, tmp_path: Path) -> Iterator["Train"]:
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(PROGRAM))
    train = Train(api, starter, program, tmp_path)
    yield train
    for crew in train.crews:
        crew.close()


class Train:
    def __init__(self, api: Api, starter: Starter, program: Path, folder: Path) -> None:
        self._made = api, starter, program, folder
        self.crews: list[Crew] = []

    def crew(self, **env: str) -> Crew:
        api, starter, program, folder = self._made
        number = len(self.crews) + 1
        self.crews.append(Crew(api, starter, number, program, folder / str(number), env))
        return self.crews[-1]

    def alone(self, batch: int | None, **env: str) -> dict[str, float]:
        """One worker with this batch size from its first step on; None: not opted in."""
        crew = self.crew(**env)
        crew.regroup(0, [0], [0], **({"batches": [16, 512], "batch": batch} if batch else {}))
        crew.start(0)
        return told(crew, 0)


def told(crew: Crew, rank: int) -> dict[str, float]:
    assert crew.end(rank) == 0, crew.output(rank)
    found: dict[str, float] = json.loads(crew.output(rank).splitlines()[-1])
    return found


def test_the_target_takes_as_many_samples_with_a_batch_that_the_noise_allows(train: Train) -> None:
    """The noise is a thousand samples here at the start, and many thousands near the target. AdaScale: within 25 %."""
    small, large = train.alone(16), train.alone(128)
    assert small["target"]
    assert large["target"] == pytest.approx(small["target"], rel=0.25)
    assert large["pieces"] < small["pieces"] / 6, "it takes far fewer steps"
    assert train.alone(128, RULE="none")["target"] is None, "with the learning rate of the small batch it takes longer"
    assert large["noise"] > 100


def test_without_the_users_consent_nothing_changes(train: Train) -> None:
    """To the last bit, as with an open batch size that is the one asked for."""
    fixed, opened = train.alone(None, RULE="linear"), train.alone(16, RULE="linear")
    assert fixed["noise"] == 0.0
    assert (fixed["weights"], fixed["steps"], fixed["pieces"]) == (opened["weights"], opened["steps"], opened["pieces"])


def test_what_does_not_fit_at_once_is_taken_in_pieces(train: Train) -> None:
    whole, pieces = train.alone(128, RULE="sqrt"), train.alone(128, RULE="sqrt", MOST="32")
    assert pieces["pieces"] > 3.9 * whole["pieces"]
    assert pieces["seen"] == whole["seen"]
    assert pieces["weights"] == pytest.approx(whole["weights"], abs=1e-4)


def test_a_new_batch_size_is_taken_at_a_step_by_all_workers(train: Train) -> None:
    crew = train.crew()
    crew.regroup(0, [0, 1], [0, 1], batches=[16, 512], batch=None)
    crew.start(0)
    crew.start(1, WEIGHTS="2")
    wait_until(lambda: len(crew.steps(1)) > 3, PATIENCE, "both train")
    crew.regroup(0, [0, 1], [0, 1], batches=[16, 512], batch=100)
    results = [told(crew, rank) for rank in (0, 1)]
    assert results[0]["weights"] == results[1]["weights"]
    for rank in (0, 1):
        sizes = [step["whole"] for step in crew.steps(rank) if step["whole"] in (16, 100)]
        assert sizes == sorted(sizes)
        assert {16, 100} == set(sizes)
        assert {step["lr"] for step in crew.steps(rank)} == {0.0002}, "a scheduler sees the rate that was asked for"
    assert results[0]["seen"] == results[1]["seen"] == 80_000
    assert results[0]["steps"] == 5_000, "in batches of the size asked for"
