"""A Keras model under real Horovod with a fixed number of processes. For elastic ones see tests/e2e."""

from typing import Any

from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import Launcher, Workers
from support.horovod import ENV, EXAMPLE, LONG, MARKS, steps
from support.waiting import wait_until

pytestmark = MARKS


def worker(bench: Any, rank: int, workers: Workers, options: str) -> Launch:
    """Of a job whose Horovod lies in an environment of its own."""
    spec = {"launcher": Launcher.HOROVOD, "workers": workers, "env": ENV}
    command = f"python {EXAMPLE} {options}"
    launch: Launch = bench.launch(command, rank=rank, spec=spec, cpu_limit=1.0, world_size=workers.want)
    return launch


def test_a_fixed_number_of_processes(bench: Any) -> None:
    launches = [worker(bench, rank, Workers(2, 2, 2), "--steps 3") for rank in (0, 1)]
    executor = bench.executor()
    for launch in launches:
        executor.start(launch)
    wait_until(lambda: bench.paths(launches[0]).exit.exists(), LONG, "Horovod has ended")
    assert [bench.ended(launch).ok for launch in launches] == [True, True]
    assert steps(bench.output(launches[0])) == [(1, 2), (2, 2), (3, 2)]
