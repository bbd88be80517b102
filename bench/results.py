"""All tables of docs/results.md that simulations make, one after the other."""

import importlib
import time
from pathlib import Path

from bench.figures import Figures

_MAKERS = ("published", "flowcon", "fixed_20", "solvers", "quality")
_WITH_TRACES = ("quality",)


def measure(traces: Path, limit: float, only: str = "") -> Figures:
    """`only`: cases of quality with this in their name."""
    figures = Figures("docs/results.md, made anew: CPU of each maker, but for the simulations that quality starts")
    for name in _MAKERS:
        began = time.process_time()
        maker = importlib.import_module(f"bench.{name}").measure
        made = maker(traces, limit, only) if name in _WITH_TRACES else maker()
        made.save(name)
        figures.add(name, time.process_time() - began, "s")
        figures.notes += made.notes
    return figures
