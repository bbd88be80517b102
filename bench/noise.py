"""What it costs a training to measure the noise of its gradients, in CPU time, against its steps."""

import statistics
import time

from bench.figures import Figures

_STEPS, _ROUNDS = 200, 3
_MODELS = {"convolutions, batch 8": (8, True), "dense layers, batch 64": (64, False)}


def measure() -> Figures:
    import torch

    from schedulearn.job.batching import GradientNoise

    torch.set_num_threads(1)
    figures = Figures("Measuring the noise of gradients: part of a step's CPU time")
    for name, (batch, convolves) in _MODELS.items():
        model, x = _model(torch, batch, convolves)
        parameters, parts = list(model.parameters()), []
        for _ in range(_ROUNDS):
            noise, steps, looks = GradientNoise(), 0.0, 0.0
            for _ in range(_STEPS):
                begun = time.process_time()
                model.zero_grad()
                model(x).square().mean().backward()
                stepped = time.process_time()
                noise.look(parameters, batch)
                steps, looks = steps + stepped - begun, looks + time.process_time() - stepped
            parts.append(100 * looks / steps)
        figures.add(name, statistics.median(parts), "%", aim=2.0, against=f"{_STEPS} steps, {_ROUNDS} times")
    return figures


def _model(torch, batch, convolves):  # type: ignore[no-untyped-def] # torch is imported late
    nn = torch.nn
    if convolves:
        layers = [nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 128, 3)]
        return nn.Sequential(*layers), torch.randn(batch, 3, 32, 32)
    return nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)), torch.randn(batch, 512)
