"""The program of live experiments is a real training: it learns, and goes on where it was stopped."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from schedulearn.lab.experiments.models import FLOWCON
from schedulearn.lab.live import programs


@pytest.fixture
def train() -> Any:
    """Here: torch takes longer to load than all other tests to be collected."""
    from schedulearn.lab.live import train

    return train


def run(train: Any, network: str, steps: int, capsys: pytest.CaptureFixture[str]) -> list[float]:
    """The losses that it prints."""
    train.torch.set_num_threads(1)
    train.torch.manual_seed(0)
    make, _ = train.NETWORKS[network]
    model = make()
    args = argparse.Namespace(steps=steps, wait=0.0, seed=0, reports=250)
    train.train(model, train.Adam(list(model.parameters()), 0.003), args)
    return [float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("network", sorted(set(programs.NETWORKS.values())))
def test_its_loss_falls(train: Any, network: str, capsys: pytest.CaptureFixture[str]) -> None:
    losses = run(train, network, 30, capsys)
    assert len(losses) == 30
    assert losses[-1] < 0.97 * losses[0]


def test_it_goes_on_where_it_was_stopped(train: Any, tmp_path: Path) -> None:
    """Weights and the state of the optimiser are those that were saved."""
    make, _ = train.NETWORKS["mlp"]
    images, kinds = train.make_data(0)
    model = make()
    optimizer = train.Adam(list(model.parameters()), 0.003)
    other = make()
    resumed = train.Adam(list(other.parameters()), 0.003)

    def step(of: tuple[Any, Any]) -> float:
        network, adam = of
        loss = network(images[:32], kinds[:32])
        loss.backward()
        adam.step()
        return float(loss.detach())

    for _ in range(3):
        step((model, optimizer))
    train.store(tmp_path, model, optimizer)
    train.load(tmp_path, other, resumed)
    assert resumed.steps == 3
    assert [step((model, optimizer)) for _ in range(2)] == [step((other, resumed)) for _ in range(2)]


def test_every_model_of_flowcon_has_a_network(train: Any) -> None:
    assert set(programs.NETWORKS) == set(FLOWCON)
    assert set(programs.NETWORKS.values()) == set(train.NETWORKS)
