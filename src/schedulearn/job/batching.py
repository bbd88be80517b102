"""Batch sizes that the scheduler chooses: how noisy gradients are, and what learning rate another batch needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch

Rule = Literal["adascale", "sqrt", "linear", "none"]
RULES: tuple[Rule, ...] = ("adascale", "sqrt", "linear", "none")
_EVERY = 40  # steps: two in a row of so many are looked at, so that it costs next to nothing
_LEAST = 3  # looks before anything is told
_MEMORY = 0.9  # how much of what was measured stays at each look


class GradientNoise:
    """The gradient noise scale φ, in samples: the variance of one sample's gradient over the square of the mean's norm.

    Of the gradients of two steps in a row, each averaged over a batch of M samples, half the square of their difference
    is the variance over M. That the weights have moved in between makes it a little too large.
    """

    def __init__(self, every: int = _EVERY) -> None:
        self._every, self._steps, self._looks = every, 0, 0
        self._before: tuple[int, list[torch.Tensor]] | None = None
        self._variance = self._square = 0.0

    def look(self, parameters: Sequence[torch.Tensor], batch: int) -> None:
        """After the gradients were averaged, before they are used."""
        self._steps += 1
        every = self._every if self._looks >= _LEAST else 2
        if self._before is None and self._steps % every == 0:
            self._before = batch, [p.grad.detach().clone() for p in parameters if p.grad is not None]
        elif self._before:
            size, before = self._before
            self._before = None
            now = [p.grad.detach() for p in parameters if p.grad is not None]
            if size == batch and len(now) == len(before):
                self._add(batch, _square(torch._foreach_sub(now, before)) / 2, _square(now))

    @property
    def scale(self) -> float | None:
        """None: not known yet."""
        if self._looks < _LEAST or self._square <= 0:
            return None
        return self._variance / self._square

    def _add(self, batch: int, half: float, square: float) -> None:
        self._looks += 1
        weight = max(1 - _MEMORY, 1 / self._looks)
        self._variance += weight * (batch * half - self._variance)
        self._square += weight * (square - half - self._square)


def _square(tensors: Sequence[torch.Tensor]) -> float:
    norms: list[torch.Tensor] = list(torch._foreach_norm(tensors))
    return float(torch.stack([norm.double() for norm in norms]).square().sum())


def lr_factor(rule: Rule, asked: int, batch: int, noise: float | None) -> float:
    """By how much the learning rate for the batch that the program asked for is to be multiplied for this one."""
    scale = batch / asked
    if rule == "linear":
        return scale
    if rule == "sqrt":
        return float(scale**0.5)
    if rule == "adascale" and noise is not None:
        return (noise / asked + 1) / (noise / batch + 1)  # what a step brings, in steps with the batch asked for
    return 1.0


@contextmanager
def multiplied(optimizer: torch.optim.Optimizer, factor: float) -> Iterator[None]:
    """All learning rates, for one step: a learning-rate scheduler sees its own."""
    groups = optimizer.param_groups if factor != 1.0 else []
    rates = [group["lr"] for group in groups]
    for group in groups:
        group["lr"] = group["lr"] * factor
    yield
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate
