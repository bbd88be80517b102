"""Changing the limits of a container while it runs, and reading back that they hold."""

from typing import Any

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.events import LimitsSet
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.ports import Clock
from schedulearn.core.domain.units import format_size
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.launching import workers_now_in
from schedulearn.executors.common.paths import WorkerPaths, write_file
from schedulearn.executors.docker.calls import Refused, Unreachable
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.control import kept_control, read_small, write_control
from schedulearn.executors.docker.ending import carried_group
from schedulearn.executors.docker.options import PLACES
from schedulearn.executors.docker.usage import ContainerUsage, limits_of
from schedulearn.executors.kernel.change import Ack, change, control_text, fixed_threads, read_ack
from schedulearn.executors.kernel.groups import PERIOD, in_force, quota_for, shares_for


def update_options(limits: Limits) -> dict[str, int]:
    """For `update_container`. Swap has the same limit as memory: it would only make a job slow."""
    options: dict[str, int] = {}
    if limits.cpus is not None:
        options |= {"cpu_period": PERIOD, "cpu_quota": quota_for(limits.cpus)}
    if limits.weight is not None:
        options["cpu_shares"] = shares_for(limits.weight)
    if limits.memory is not None:
        options |= {"mem_limit": limits.memory, "memswap_limit": limits.memory}
    return options


class Limiter:
    """Changes limits on one engine. Its calls fail as `Calls` does."""

    def __init__(self, containers: Containers, usage: ContainerUsage, cores: float, clock: Clock) -> None:
        self._containers, self._usage, self._cores, self._clock = containers, usage, cores, clock

    def set(self, worker: WorkerId, paths: WorkerPaths, limits: Limits) -> LimitsSet | None:
        """What came of it; None: they were so before, or it does not run."""
        try:
            now, problem = self._change(worker, paths, limits), ""
        except Unreachable:
            raise
        except (OSError, ExecutorError) as error:
            now, problem = limits, str(error)
        self._usage.refresh(worker)
        return LimitsSet(self._clock.now(), worker, now, problem, self._fixed(worker)) if now else None

    def present(self, worker: WorkerId, paths: WorkerPaths) -> Limits:
        """Those of one worker, where this one may carry others; unlimited if there is no container."""
        told = self._look(self._containers.name(worker))
        return limits_of(told["HostConfig"]).shared_by(_held(paths)) if told else Limits()

    def _change(self, worker: WorkerId, paths: WorkerPaths, limits: Limits) -> Limits | None:
        told = self._look(self._containers.name(worker))
        if told is None or not told["State"]["Running"]:
            return None
        held = _held(paths)
        self._check_memory(worker, limits.times(held))
        container, owner = told["Id"], _owner(told["Config"]["User"])
        return change(
            limits,
            limits_of(told["HostConfig"]).shared_by(held),
            self._cores,
            lambda asked: self._write(container, asked.times(held)).shared_by(held),
            lambda present: self._tell(container, paths, owner, present),
            lambda: self._hear(container),
        )

    def _check_memory(self, worker: WorkerId, limits: Limits) -> None:
        """The kernel would not refuse, but kill. `limits`: of all workers that it holds."""
        used = self._usage.read(worker)
        if limits.memory is None or used is None or used.memory is None or used.memory <= limits.memory:
            return
        wanted, held = format_size(limits.memory), format_size(used.memory)
        raise ExecutorError(f"a memory limit of {wanted} is below the {held} that it holds")

    def _look(self, name: str) -> Any:
        try:
            with self._containers.calls.api() as api:
                return api.inspect_container(name)
        except Refused as refusal:
            if refusal.not_found:
                return None
            raise

    def _write(self, container: str, limits: Limits) -> Limits:
        with self._containers.calls.api() as api:
            api.update_container(container, **update_options(limits))
            after = limits_of(api.inspect_container(container)["HostConfig"])
        if not in_force(limits, after):
            raise ExecutorError(f"the engine took {limits}, but shows {after}")
        return after

    def _fixed(self, worker: WorkerId) -> int | None:
        """An engine that does not answer now must not keep us from saying that the limits have changed."""
        try:
            return fixed_threads(self._hear(self._containers.name(worker)))
        except (OSError, ExecutorError):
            return None

    def _hear(self, container: str) -> Ack | None:
        return read_ack(read_small(self._containers, container, PLACES.ack))

    def _tell(self, container: str, paths: WorkerPaths, owner: tuple[int, int], limits: Limits) -> None:
        text = control_text(kept_control(paths), limits, self._cores)
        write_control(self._containers, container, owner, text)
        write_file(paths.control, text)


def _held(paths: WorkerPaths) -> int:
    """For how many workers its limits must do."""
    return workers_now_in(carried_group(paths), kept_control(paths))


def _owner(user: str) -> tuple[int, int]:
    uid, _, gid = user.partition(":")
    return int(uid), int(gid or uid)
