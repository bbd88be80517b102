"""The gradients of a model, put together so that one sum over all workers averages them."""

from __future__ import annotations

import torch

_EXTRA = 8  # numbers that travel with the gradients


class Gradients:
    """The gradients of all parameters, and a few numbers, in one buffer in main memory."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        self.parameters = parameters
        exact = any(p.dtype == torch.float64 for p in parameters)
        sizes = [p.numel() for p in parameters]
        self.buffer = torch.zeros(sum(sizes) + len(sizes) + _EXTRA, dtype=torch.float64 if exact else torch.float32)
        *self._views, self._present, self._numbers = self.buffer.split([*sizes, len(sizes), _EXTRA])

    def collect(self, weight: float, numbers: list[float]) -> torch.Tensor:
        """Put in this worker's part; returns where the sums of the numbers will be."""
        for i, (parameter, view) in enumerate(zip(self.parameters, self._views, strict=True)):
            gradient = parameter.grad
            self._present[i] = gradient is not None
            if gradient is None:
                view.zero_()
            elif gradient.is_sparse:
                raise ValueError("a gradient is sparse, which cannot be averaged: make the layer with sparse=False")
            else:
                view.copy_(gradient.reshape(-1)).mul_(weight)
        self._numbers[: len(numbers)] = torch.tensor(numbers, dtype=self.buffer.dtype)
        return self._numbers

    def hand_back(self) -> None:
        """The sums become the gradients. One that no worker had stays away: that is not the same as zero."""
        for parameter, view, present in zip(self.parameters, self._views, self._present.tolist(), strict=True):
            if not present:
                parameter.grad = None
            elif parameter.grad is None:
                parameter.grad = view.reshape(parameter.shape).to(parameter, copy=True)
            else:
                parameter.grad.copy_(view.reshape(parameter.shape))
