"""Numbers in command lines, and which of them matter."""

import math
import random

import pytest

from schedulearn.core.estimate.features import learn_laws, numbers_in


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py", {}),
        ("python3.11 train2.py --epochs 20 --lr=1e-3", {"--epochs": 20, "--lr": 0.001}),
        ("train 7 --bs 64 8", {"#1": 7, "--bs": 64, "#2": 8}),
        (("train", "--lr", ".5", "--name", "run3", "-n", "2"), {"--lr": 0.5, "-n": 2}),
        ("LR=0.1 train --flag --depth 3", {"LR": 0.1, "--depth": 3}),
        ("train --lr -1", {"--lr": -1}),
        ("train --huge 1e999", {}),
        ("", {}),
    ],
)
def test_numbers_have_the_name_of_their_option(command: str | tuple[str, ...], expected: dict[str, float]) -> None:
    assert numbers_in(command) == expected


def test_a_long_command_line_is_cut() -> None:
    assert len(numbers_in(" ".join(str(n) for n in range(1000)))) == 16


def test_two_laws_on_top_of_each_other() -> None:
    rng = random.Random(3)
    jobs = []
    for _ in range(40):
        features = {"epochs": rng.choice([1.0, 2.0, 5.0]), "width": rng.choice([8.0, 16.0]), "seed": rng.uniform(1, 99)}
        seconds = 3 * features["epochs"] * features["width"] ** 2 * rng.lognormvariate(0, 0.05)
        jobs.append((features, seconds))
    laws = learn_laws(jobs, ["epochs", "width", "seed"])
    assert {law.feature for law in laws} == {"epochs", "width"}
    assert {law.feature: law.slope for law in laws} == pytest.approx({"epochs": 1, "width": 2}, abs=0.2)


def test_chance_is_no_law() -> None:
    believed = 0
    for seed in range(200):
        rng = random.Random(seed)
        jobs = [({f"f{i}": rng.uniform(1, 9) for i in range(8)}, rng.lognormvariate(5, 1)) for _ in range(8)]
        believed += bool(learn_laws(jobs, jobs[0][0]))
    assert believed <= 30


def test_nothing_to_learn_from() -> None:
    assert learn_laws([], ["a"]) == []
    assert learn_laws([({"a": 1.0}, 5.0)] * 10, ["a"]) == [], "it does not vary"
    assert learn_laws([({"a": float(n)}, 5.0) for n in range(1, 9)], ["a"]) == [], "all took as long"
    assert learn_laws([({"a": n - 4.0}, math.exp(n)) for n in range(9)], ["a"]) == [], "no logarithm"
    assert learn_laws([({"a": 1 + n / 1e6}, math.exp(n)) for n in range(9)], ["a"]) == [], "hardly any difference"


def test_no_law_is_steeper_than_a_program_could_be() -> None:
    (law,) = learn_laws([({"a": 1 + n / 8}, math.exp(9 * n)) for n in range(9)], ["a"])
    assert law.slope == 4
