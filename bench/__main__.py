"""`python -m bench [NAME…]`: all figures, or those of the given names."""

import argparse
import importlib
import time
from pathlib import Path
from typing import Any

from rich.console import Console

# Each name is a file of this folder with a function `measure`.
BENCHMARKS = {
    "start": "start to healthy, memory, what an idle service costs",
    "latency": "from submit to the process running",
    "submissions": "1,000 submissions from one client",
    "answers": "each route of the API beside 10,000 queued jobs: the slowest answers",
    "queue": "10,000 queued jobs: cycle, list, explain, recovery",
    "queue_depth": "20,000 queued jobs that all ask for something else: cycle, submissions, overview, short jobs",
    "decision": "one decision alone, for each preset",
    "simulator": "the simulator's speed on real traces, for each preset",
    "decisions": "what each preset decides, compared with a record (--write makes it anew)",
    "results": "all tables of docs/results.md that simulations make: published, flowcon, fixed_20, solvers, quality",
    "quality": "what each preset makes of real traces; writes docs/results.md",
    "flowcon": "every reading of FlowCon's rule beside what was published; writes docs/results.md",
    "fixed_20": "SpeCon's fixed-20 by baseline, threshold and rule; writes docs/results.md",
    "solvers": "what the solvers of consolidate make of the same problems; writes docs/results.md",
    "published": "the published experiments, and ours against them with and without steps; writes docs/results.md",
    "load_features": "would the load at submission tell how long a job will run?",
    "announced": "our own policy with wrong estimates, and on other draws",
    "goodput": "jobs that leave their batch size to the scheduler, on Pollux's workloads, beside what was published",
    "commands": "the command line's own time",
    "report": "the cost of `schedulearn.job.report`",
    "threads": "steps under a CPU limit, with threads that follow it and without",
    "noise": "what measuring the noise of gradients costs a step",
    "waiting": "steps of trainings side by side, with threads that spin while they wait and without",
    "points": "a million points in one series",
    "monitoring": "what looking at 50 workers costs: processes and containers",
    "share": "the share loop: 50 containers on one machine, how soon it reacts, what it costs training",
    "docker": "containers: first line of output, started a second, moved to another engine",
    "resize": "how long a training stands still while its number of workers changes",
    "saving": "save, stop, start again and go on, at several points of a training",
    "page": "the web page: loads, memory over hundreds of them, ten pages open for an hour of updates",
    "faults": "the fault simulator over many seeds; what fails is made small and printed with its seed",
    "crash": "200 jobs while the service is killed 20 times",
    "load": "20,000 queued and 200 running jobs, 50 clients, a million reports, a day of short jobs; about an hour",
    "outside": "random faults by seed: service, workers, disk, databases and engines killed, stopped, filled, cut off",
}
_ASKED_FOR = ("load", "outside", "decisions", "results")  # only by their names: they take long, or measure nothing new
_SEEDS = {"faults": 200, "outside": 50}  # unless told otherwise
_ON_TRACES = ("simulator", "quality", "results")
_TRACES = Path(__file__).parent.parent.parent / "shared" / "traces"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, print tables, write results/*.json.")
    about = "; ".join(f"{name}: {text}" for name, text in BENCHMARKS.items())
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *BENCHMARKS], help=about)
    parser.add_argument("--traces", type=Path, default=_TRACES, metavar="DIR", help="where the public traces are")
    parser.add_argument("--limit", type=float, default=300.0, metavar="S", help="CPU seconds of one simulation")
    parser.add_argument("--only", default="", metavar="TEXT", help="workloads of quality with this in their name")
    parser.add_argument("--seeds", type=int, metavar="N", help="schedules of random faults")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them")
    parser.add_argument("--write", action="store_true", help="make the record of decisions anew")
    parser.add_argument("--scale", type=float, default=1.0, metavar="PART", help="of the load: 0.01 for a quick try")
    given = parser.parse_args()
    names = given.names or [name for name in BENCHMARKS if name not in _ASKED_FOR]
    console = Console()
    for name in names:
        console.print(f"[bold]{name}[/]: {BENCHMARKS[name]} …", highlight=False)
        start = time.perf_counter()
        measure = importlib.import_module(f"bench.{name}").measure
        figures = measure(*_arguments(name, given))
        figures.note(f"measured in {time.perf_counter() - start:.0f} s")
        figures.show(console)
        figures.save(name)


def _arguments(name: str, given: argparse.Namespace) -> tuple[Any, ...]:
    if name in _ON_TRACES:
        chosen = () if name == "simulator" else (given.only,)
        return given.traces.resolve(), given.limit, *chosen
    if name == "goodput":
        return (given.traces.resolve(),)
    if name == "decisions":
        return given.traces.resolve(), given.write
    if name == "load":
        return (given.scale,)
    return (given.seeds or _SEEDS[name], given.first) if name in _SEEDS else ()


if __name__ == "__main__":
    main()
