"""Pollux's own workloads where jobs leave their batch size to the scheduler: average completion times beside those that
were published, with the settings of its simulator (16x4, 30 s for each start, decisions every minute).
"""

import statistics
import time
from pathlib import Path

from bench.figures import Figures
from schedulearn.core.policies.catalogue.presets import DEFAULT_PRESET
from schedulearn.lab.sim.run import Request, prepare

PUBLISHED = {1: 2089, 2: 3323, 3: 2189, 4: 2721}  # seconds, of Pollux
_POLICIES = (DEFAULT_PRESET, "pollux", "afs-l", "ffdl", "tiresias")


def measure(traces: Path) -> Figures:
    figures = Figures("Goodput: average completion time on Pollux's workloads, without the oracle")
    for policy in _POLICIES:
        averages, begun = [], time.process_time()
        for number, published in PUBLISHED.items():
            trace = str(traces / "pollux" / f"workload-{number}.csv")
            study = prepare(Request("16x4", [policy], trace=trace, like="pollux", goodput=True))
            averages.append(float(study.run(study.choices[0]).summary()["avg_jct"]))
            figures.add(f"{policy}, workload {number}", averages[-1], "s", against=f"Pollux {published}, as published")
        mean = statistics.mean(PUBLISHED.values())
        figures.add(f"{policy}, mean", statistics.mean(averages), "s", against=f"Pollux {mean:.0f}, as published")
        figures.add(f"{policy}, CPU of a workload", (time.process_time() - begun) / len(PUBLISHED), "s")
    return figures
