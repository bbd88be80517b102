"""Schedulearn's own experiments, those with elastic containers, and saving and resuming."""

from collections.abc import Sequence
from dataclasses import replace

from schedulearn.lab.experiments.models import POLLUX
from schedulearn.lab.experiments.types import Experiment, Figure, Machines, Variant
from schedulearn.lab.experiments.workloads import CoreJobs, Every, Gaps, GpuJobs, Scaled

_SERVERS = Machines(3, gpus=4)
# How long the jobs ran was not published; the author's database of such a run ends at 564 s. A minute, with a factor
# of two, gives about that.
_THIRTY = GpuJobs("thirty", Gaps(1.0, 30.0), 30, most_gpus=4, median=60.0, factor=2.0)
_FIFO = Variant("fifo", "fifo")
_ROUND_ROBIN = Variant("round-robin", "round-robin")
_SAME_JOBS = (
    "The original gave each policy other jobs and left queueing out; here all see the same, counted from arrival."
)

_ALONE = Variant("alone", "fifo")
_SIZES = (2, 4)
_SMALLER = (
    "Published in words alone: smaller jobs gain more than large ones. In these profiles, at one batch size each, the "
    "smallest gains least, and among the others size does not decide."
)

_STAY = Variant("no moves", "round-robin")
_MOVE = Variant("moves, saved", "round-robin", {"migrate": "repack"}, {"repack_every": 30.0}, ("repack_every",))
_RESPAWN = replace(_MOVE, label="moves, killed and respawned", saves=False)
_MOVING = (_STAY, _MOVE, _RESPAWN)
_STABLE = (
    "Published in words alone: migration helps jobs to complete, and stabilises completion times. Which job moved when "
    "is not said; here running jobs are packed anew, so that a waiting one finds its GPUs on one server."
)

_UNLIMITED = Variant("no limits", "fifo", {"share": "fair"})
_CORES = tuple(Variant(name, name) for name in ("cores-strict", "cores-attend", "cores-proportional"))
_MIX = CoreJobs("core-mix", Gaps(5.0, 60.0), 20, least=2, most=16, median=180.0, factor=2.0)

QUOTAS = (0.5, 1.0, 1.5, 2.0)  # cores
FOLLOWING = "threads follow"
_THREADS = tuple(Variant(name, "fifo", {"share": "fair"}) for name in ("1 thread", "2 threads", "4 threads", FOLLOWING))
PARTS = (10, 30, 50, 70, 90)  # percent of the training
_SAVED = tuple(Variant(name, "fifo", {"share": "fair"}) for name in ("VAE", "MNIST-P", "GRU", "LSTM-CRF", "Bi-RNN"))

OTHER_EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "placement",
        "Thirty jobs of 1 to 4 GPUs, gaps of 1 to 30 s, on 3 servers with 4 GPUs: packed, or spread in turn.",
        "Schedulearn",
        _THIRTY,
        _SERVERS,
        (_FIFO, _ROUND_ROBIN),
        tuple(
            Figure(measure, variant.label)
            for measure in ("server use", "use", "average", "makespan")
            for variant in (_FIFO, _ROUND_ROBIN)
        ),
        why=f"{_SAME_JOBS} Published in words alone: packing uses each server most, taking turns least.",
    ),
    Experiment(
        "scaling",
        "Six models with 1 to 4 workers each, by Pollux's measured step times.",
        "Schedulearn",
        Scaled("scaling", POLLUX, Every(1e6), 4 * len(POLLUX)),
        Machines(1, gpus=4),
        (_ALONE,),
        tuple(Figure(f"speed-up:{model} ×{size}", _ALONE.label) for model in POLLUX for size in _SIZES),
        why=_SMALLER,
    ),
    Experiment(
        "migration",
        "The thirty jobs of `placement`, spread in turn: nobody moves, jobs are packed anew and go on, or begin anew.",
        "Schedulearn",
        _THIRTY,
        _SERVERS,
        _MOVING,
        tuple(
            Figure(measure, variant.label)
            for measure in ("average", "deviation", "makespan", "moves", "lost work")
            for variant in _MOVING
        ),
        why=f"{_SAME_JOBS} {_STABLE}",
        restart_cost=3.5,
    ),
    Experiment(
        "core-mix",
        "Twenty jobs that ask for 2 to 16 cores of one machine with 16: whole cores given out, or none limited.",
        "Elastic containers",
        _MIX,
        Machines(1, cores=16.0),
        (_UNLIMITED, *_CORES),
        tuple(
            Figure(measure, variant.label)
            for measure in ("average", "average change", "makespan")
            for variant in (_UNLIMITED, *_CORES)
        ),
        why="No number was published. In the author's own logs the run without limits won.",
    ),
    Experiment(
        "subscription",
        "Throughput of a job over CPU quota × threads, with and without threads that follow the quota.",
        "Elastic containers",
        None,
        Machines(1, cores=max(QUOTAS)),
        _THREADS,
        tuple(Figure(f"throughput:{quota:g}", variant.label) for quota in QUOTAS for variant in _THREADS),
        why="No number was published.",
        live_only="what too many threads cost is a property of a real machine",
    ),
    Experiment(
        "saving",
        "Overhead of saving and resuming at 10 to 90 % of training, and over several models: below 5 s was published.",
        "Saving and resuming",
        None,
        Machines(1, cores=1.0),
        _SAVED,
        (
            *(Figure(f"overhead:{part}", one.label, (0.0, 5.0)) for one in _SAVED for part in PARTS),
            *(Figure("overhead deviation", one.label, (0.0, 1.43)) for one in _SAVED),
        ),
        why="Most of it is the start of the program, which loads torch; how long that takes is the machine's.",
        live_only="what saving costs is an assumption of the simulator, not a result",
    ),
)
