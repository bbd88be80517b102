"""Lines and progress bars of training programs: which value they hold, and which step it belongs to."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.spec import Metric
from schedulearn.service.progress.output import Batch, Reader, batch_in, clean

DATA = Path(__file__).parents[1] / "data" / "output"  # as Keras 3.15 and Lightning 2 wrote it into a file


def read(lines: list[str], metric: Metric | None = None, step: int = 0) -> list[tuple[int, float]]:
    """What these lines say, all of them complete."""
    reader = Reader(metric or Metric(), step, from_beginning=step == 0)
    return [found for line in lines if (found := reader.read(clean(line.encode()), ended=True))]


def states(name: str) -> list[tuple[str, bool]]:
    """All that stood on the terminal one after the other, and whether it stayed."""
    shown = []
    for line in (DATA / name).read_bytes().split(b"\n"):
        parts = [clean(part) for part in re.split(rb"\r|\x08{2,}", line)]
        shown += [(part, part is parts[-1]) for part in parts if part.strip()]
    return shown


def watch(name: str, metric: str, goal: str = "min") -> list[tuple[int, float]]:
    reader = Reader(Metric(metric, goal), 0, from_beginning=True)
    return [found for text, ended in states(name) if (found := reader.read(text, ended))]


@pytest.mark.parametrize(
    ("line", "batch"),
    [
        ("469/469 ━━━━━━━━━━━━━━━━━━━━ 2s 3ms/step - accuracy: 0.91 - loss: 0.31", Batch(None, 469, 469)),
        ("  5/469 ━━━━━━━━━━━━━━━━━━━━ 2s 3ms/step - loss: 0.31", Batch(None, 5, 469)),
        ("8/8 - 0s - 22ms/step - accuracy: 0.4563 - loss: 0.6993", Batch(None, 8, 8)),
        ("      1/Unknown 0s 32ms/step - loss: 0.6987", Batch(None, 1, None)),
        ("100/469 [=====>........................] - ETA: 1s - loss: 0.5", Batch(None, 100, 469)),
        ("469/469 [==============================] - 2s 3ms/step - loss: 0.31", Batch(None, 469, 469)),
        ("Epoch 3: 100%|███| 10/10 [00:00<00:00, 41.2it/s, v_num=0, train_loss=0.31]", Batch(3, 10, 10)),
        ("Epoch 0: |          | 7/? [00:00<00:00, 41.2it/s, train_loss=0.31]", Batch(0, 7, None)),
        (" 5%|▌         | 5/100 [00:01<00:19,  5.00it/s, loss=0.3]", Batch(None, 5, 100)),
        ("Epoch 2/2  ━━━━━━━━━━━━━━━━ 10/10 0:00:00 • 0:00:00 569.07it/s train_loss: 0.107", Batch(2, 10, 10)),
        ("Epoch [3/10], Step [50/469], Loss: 0.31", Batch(3, 50, 469)),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.21", Batch(1, 640, 60000)),
        ("Epoch: [0][  10/5005]\tTime 0.5\tLoss 6.9", Batch(0, 10, 5005)),
        ("epoch 3 loss: 0.31", None),
        ("Epoch [7/20] loss: 0.25", None),
        ("loss: 0.31 (3/4 of the way)", None),
    ],
)
def test_where_a_bar_stands(line: str, batch: Batch | None) -> None:
    assert batch_in(line) == batch


@pytest.mark.parametrize(
    ("metric", "line", "value"),
    [
        ("loss", "8/8 ━ 1s 51ms/step - accuracy: 0.38 - loss: 0.70 - val_accuracy: 0.47 - val_loss: 0.69", 0.70),
        ("val_loss", "8/8 ━ 1s 51ms/step - accuracy: 0.38 - loss: 0.70 - val_accuracy: 0.47 - val_loss: 0.69", 0.69),
        ("accuracy", "8/8 ━ 1s 51ms/step - val_accuracy: 0.47 - accuracy: 0.38 - loss: 0.70", 0.38),
        ("loss", "8/8 ━ 1s 51ms/step - val_loss: 0.69", None),
        ("loss", "8/8 ━ 1s 3ms/step - loss: 3.1e-04", 3.1e-04),
        ("loss", "8/8 ━ 1s 3ms/step - loss: nan - val_loss: 1", "nan"),
        (
            "loss",
            "Epoch 0: 50%|█| 5/10 [00:00<00:00, 4it/s, train_loss_step=0.3, val_loss=0.1, train_loss_epoch=0.2]",
            0.3,
        ),
        ("loss", "Epoch 0: 50%|█| 5/10 [00:00<00:00, 4it/s, v_num=0, val_loss=0.1]", None),
        ("loss", "Epoch 0: 50%|█| 5/10 [00:00<00:00, 4it/s, train_loss=0.4, loss=0.5]", 0.5),
        ("loss", "validation loss: 0.5", None),
        ("loss", "val loss: 0.5, train loss: 0.4", 0.4),
        ("loss", "Test set: loss: 0.5", 0.5),
        ("loss", "train_loss: 0.31", None),
    ],
)
def test_the_name_is_matched_exactly(metric: str, line: str, value: float | str | None) -> None:
    found = [seen for _, seen in read([line], Metric(metric))]
    assert [str(seen) for seen in found] == ([] if value is None else [str(value)])


def test_colours_are_no_part_of_a_number() -> None:
    assert read(["\x1b[1mstep\x1b[0m 3 \x1b[32mloss\x1b[0m: \x1b[31m0.5\x1b[0m"]) == [(3, 0.5)]


KERAS = ["Epoch 1/3", "4/4 ━ 1s 3ms/step - loss: 0.9", "Epoch 2/3", "2/4 ━ 1s 3ms/step - loss: 0.8"]


def test_epoch_and_batch_make_a_step() -> None:
    assert read(KERAS) == [(4, 0.9), (6, 0.8)]


def test_an_evaluation_is_no_training() -> None:
    done = [*KERAS, "4/4 ━ 1s 3ms/step - loss: 0.7"]
    for evaluation in ("7/7 ━ 1s 3ms/step - loss: 0.1", "4/4 ━ 1s 3ms/step - loss: 0.1"):
        assert read([*done, evaluation, "Epoch 3/3", "1/4 ━ 1s 3ms/step - loss: 0.6"])[-2:] == [(8, 0.7), (9, 0.6)]


def test_fitting_again_goes_on() -> None:
    again = ["Epoch 1/1", "10/10 ━ 1s 3ms/step - loss: 0.5"]
    assert [step for step, _ in read([*KERAS, *again, *again])] == [4, 6, 16, 26]


def test_a_length_that_is_known_only_at_the_end_of_the_first_epoch() -> None:
    bars = ["1/Unknown 0s 3ms/step - loss: 0.9", "3/Unknown 0s 3ms/step - loss: 0.8", "2/5 ━ 0s 3ms/step - loss: 0.7"]
    assert [step for step, _ in read(["Epoch 1/2", *bars[:2], "Epoch 2/2", bars[2]])] == [1, 3, 7]
    assert [step for step, _ in read(["Epoch 1/2", *bars[:2], "Epoch 2/2", bars[0]])] == [1, 3, 4]


@pytest.mark.parametrize("first", [0, 1])
def test_epochs_may_be_counted_from_0_or_1(first: int) -> None:
    lines = [f"Epoch {first + e}: 50%|█| {n}/10 [00:00<00:00, 4it/s, loss=0.5]" for e in (0, 1) for n in (5, 10)]
    assert [step for step, _ in read(lines)] == [5, 10, 15, 20]


def test_bars_without_epochs_begin_anew() -> None:
    lines = [f"50%|█| {n}/10 [00:00<00:00, 4it/s, loss=0.{i}]" for i, n in enumerate((3, 10, 3, 10, 3))]
    assert [step for step, _ in read(lines)] == [3, 10, 13, 20, 23]


@pytest.mark.parametrize(
    ("line", "known", "step"),
    [
        ("4/10 ━ 1s 3ms/step - loss: 0.5", 33, 34),
        ("2/10 ━ 1s 3ms/step - loss: 0.5", 33, 42),
        ("Epoch 5: 80%|█| 8/10 [00:00<00:00, 4it/s, loss=0.5]", 57, 58),
        ("Epoch 6: 80%|█| 8/10 [00:00<00:00, 4it/s, loss=0.5]", 57, 58),
        ("epoch 3 loss: 0.5", 33, 3),
        ("loss: 0.5", 33, 34),
    ],
)
def test_after_a_restart_of_the_service_steps_go_on(line: str, known: int, step: int) -> None:
    """The heading of the epoch was read in an earlier life."""
    assert read([line], step=known) == [(step, 0.5)]


def test_a_training_that_began_in_an_earlier_life_and_another_one_after_it() -> None:
    lines = ["Epoch 1/2", *(f"{n}/10 ━ 1s 3ms/step - loss: 0.{n}" for n in (1, 2)), "Epoch 2/2", "1/10 ━ 1s - loss: 0"]
    assert [step for step, _ in read(lines, step=57)] == [57, 58, 67]


def test_what_keras_really_prints() -> None:
    losses = watch("keras3.txt", "loss")
    assert [step for step, _ in losses] == [1, 8, 9, 16, 24, 32, 33, 37, 38, 42]
    assert losses[1] == (8, 0.7043)
    assert [value for _, value in watch("keras3.txt", "val_loss")] == [0.6933, 0.6912, 0.6889, 0.6870]
    assert watch("keras3.txt", "accuracy", "max")[1] == (8, 0.3875)


def test_what_lightning_really_prints() -> None:
    losses = watch("lightning.txt", "train_loss")
    assert losses == watch("lightning.txt", "loss")
    assert {step for step, _ in losses} == set(range(1, 31))
    assert losses[-1] == (30, 0.0692)
    assert watch("lightning.txt", "val_loss")[-1] == (30, 0.111)


@pytest.mark.parametrize("name", ["keras3.txt", "lightning.txt"])
def test_steps_of_bars_never_go_back(name: str) -> None:
    for metric in ("loss", "val_loss"):
        steps = [step for step, _ in watch(name, metric)]
        assert all(before <= after for before, after in pairwise(steps))


@given(st.lists(st.sampled_from([text for name in ("keras3.txt", "lightning.txt") for text, _ in states(name)])))
def test_nor_do_they_in_any_other_order(texts: list[str]) -> None:
    steps = [step for step, _ in read(texts)]
    assert all(before <= after for before, after in pairwise(steps))


@given(st.text(max_size=600), st.booleans())
def test_no_line_is_too_odd(text: str, ended: bool) -> None:
    reader = Reader(Metric(), 0, from_beginning=True)
    for line in (text, f"{text} loss: 1", f"Epoch {text}", f"{text}/10 [00:00<"):
        reader.read(clean(line.encode("utf-8", "surrogatepass")), ended)
