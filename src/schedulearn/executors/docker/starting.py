"""The beginning of a container: made, filled, and started once."""

import posixpath
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.ports import Clock, Launch
from schedulearn.core.domain.resources import CPUS
from schedulearn.executors.common.archive import pack
from schedulearn.executors.common.base import NeverBegan, Unreachable, Unwanted
from schedulearn.executors.common.control import kept_control, present_limits
from schedulearn.executors.common.endings import read_end
from schedulearn.executors.common.folders import has_files, prepare_job_folders
from schedulearn.executors.common.launching import carries_group
from schedulearn.executors.common.paths import JobPaths, WorkerPaths, read_orders, write_json
from schedulearn.executors.docker.containers import CREATED, Containers
from schedulearn.executors.docker.ending import REMOVED, owner_here
from schedulearn.executors.docker.images import Images, variable_of
from schedulearn.executors.docker.layers import Layers, check_awaited, means_of, setup_of
from schedulearn.executors.docker.mounts import HostPaths, check_places, checked_mounts
from schedulearn.executors.docker.names import SETUP
from schedulearn.executors.docker.networks import OWN, Networks, network_for
from schedulearn.executors.docker.options import SHELL, command_of, container_options, content, first_rank
from schedulearn.executors.docker.output import Output
from schedulearn.executors.docker.rules import WORK, Rules, identity
from schedulearn.executors.docker.shared import SharedCheckpoints

_EXECUTABLE = 0o111
_LOOK = 0.1  # seconds between two looks whether the first worker runs
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Removed(NeverBegan):
    """It was started before, and its container is gone."""

    def __init__(self) -> None:
        super().__init__(REMOVED)


@dataclass(frozen=True, slots=True)
class Site:
    """Where workers are started: an engine, and what was decided for it."""

    root: Path  # the data folder
    containers: Containers
    images: Images
    layers: Layers
    networks: Networks
    host_paths: HostPaths
    rules: Rules
    node: Node
    clock: Clock
    log_cap: int
    shared: SharedCheckpoints | None
    aside: Callable[[], AbstractContextManager[None]]  # while something takes long that others need not wait for
    closed: threading.Event  # the service ends: the next life begins anew

    def has_checkpoint(self, job: JobId) -> bool:
        """Whether an attempt that begins would find one."""
        return self.shared.has_checkpoint(job) if self.shared else has_files(JobPaths.of(self.root, job).checkpoint)


def begin(launch: Launch, paths: WorkerPaths, site: Site, unwanted: threading.Event) -> None:
    """Returns once the container has been started, now or before. The caller holds the worker's lock.

    A container is told to start only once. One that was made but not started (a crash, or an engine that did not
    answer, came between) is thrown away: started a second time, it could run twice.
    """
    containers, name = site.containers, site.containers.name(launch.worker)
    found = containers.find(name)
    if found and found.status != CREATED:
        return
    if found:
        containers.remove(found.id)
        paths.started.unlink(missing_ok=True)
    elif paths.started.exists():
        raise Removed
    _check_wanted(unwanted)  # told so while the engine did not answer, perhaps
    ids = identity(launch, site.rules)
    prepare_job_folders(launch.worker, paths.job, launch.snapshot, owner_here(ids))
    network, why_shared = _network_of(launch, paths, site)
    bare = launch.worker.attempt > 1 and not site.has_checkpoint(launch.worker.job)
    write_json(paths.launch, {**_orders(launch, ids, network, why_shared), "bare": bare}, 0o600)
    cores = site.node.capacity[CPUS] or site.images.cores()
    write_json(paths.control, present_limits(launch, cores))
    with site.aside():
        image = _image(launch, paths, site, unwanted)
    _check_wanted(unwanted)
    container = _made(launch, paths, site, image, network)
    try:
        if network == OWN:
            _wait_for_first(launch, paths, site, unwanted)
        _check_wanted(unwanted)
        # Noted before, too: if the container is removed from outside later, it is not started a second time.
        write_json(paths.started, {"at": site.clock.now()})
        containers.start(container)
    except Unreachable:
        raise  # perhaps it runs
    except (OSError, ExecutorError):
        containers.remove(container)
        paths.started.unlink(missing_ok=True)
        raise
    write_json(paths.started, {"at": site.clock.now()})


def _check_wanted(unwanted: threading.Event) -> None:
    if unwanted.is_set():
        raise Unwanted


def _image(launch: Launch, paths: WorkerPaths, site: Site, unwanted: threading.Event) -> dict[str, Any]:
    """The image, as the engine describes it; what it takes to get it is told in the worker's log."""
    output = Output(paths.log, paths.anchors, site.log_cap)
    try:
        name = launch.spec.image or site.node.default_image
        if not name:
            raise ExecutorError(f"the job names no image, and node {site.node.name} has no default image")
        image = site.images.ready(name, output, partial(check_awaited, unwanted, site.closed))
        if launch.spec.image and SETUP in ((image.get("Config") or {}).get("Labels") or {}):
            # By a part of its id any user could name it, and it holds what others installed.
            raise ExecutorError(f"the image {launch.spec.image} was prepared for other jobs: give the same setup lines")
        if not launch.spec.setup:
            return image
        setup = setup_of(launch.spec.setup, paths.job.run)
        means = means_of(launch, site.rules, site.images.cores(), site.images.memory())
        return site.layers.ready(image, setup, means, output, unwanted)
    finally:
        output.close()


def _network_of(launch: Launch, paths: WorkerPaths, site: Site) -> tuple[str, str]:
    """As for the attempt's workers that began before it: what holds for new ones may have changed meanwhile."""
    ranks = sorted(int(folder.name) for folder in paths.folder.parent.iterdir() if folder.name.isdigit())
    for rank in ranks:
        known = read_orders(WorkerPaths.of(paths.job.root, launch.worker._replace(rank=rank)))
        if known.get("network") == OWN and known["node"] != launch.node:
            raise ExecutorError(
                f"the other workers have a network of their own on {known['node']}, as no other server was there when "
                "they began: on this one it cannot join them before the job is started anew"
            )
        if "network" in known:
            return known["network"], known["why_shared"]
    return network_for(launch, site.rules, site.images.usual_network())


def _wait_for_first(launch: Launch, paths: WorkerPaths, site: Site, unwanted: threading.Event) -> None:
    """The address that it has in their network is not there before it runs, and programs give up at once then."""
    first = first_rank(launch)
    if launch.spec.workers.max <= 1 or launch.spec.resizes_live or launch.worker.rank == first:
        return
    leader = launch.worker._replace(rank=first)
    with site.aside():
        while not read_end(WorkerPaths.of(paths.job.root, leader)):
            state = site.containers.find(site.containers.name(leader))
            if state and state.status != CREATED:
                return
            check_awaited(unwanted, site.closed)
            unwanted.wait(_LOOK)


def _made(launch: Launch, paths: WorkerPaths, site: Site, image: dict[str, Any], network: str) -> str:
    """The id of a container that has everything in it, and has not been started."""
    containers, rules, worker = site.containers, site.rules, launch.worker
    binds = checked_mounts(launch.spec.mounts, rules.mounts)
    site.host_paths.check(binds, image["Id"], str(worker))
    if site.shared:
        binds.append(site.shared.bind(worker, identity(launch, rules)))
    size = launch.spec.workers.max * (
        2 if launch.spec.resizes_live else 1
    )  # who was told to leave is there for a while
    net = site.networks.hold(str(worker.of), str(worker), size) if network == OWN else network
    python_path = variable_of(image, "PYTHONPATH")
    options = container_options(launch, rules, image["Id"], containers.instance, net, binds, python_path)
    container = containers.create(options)
    try:
        check_places(binds, containers, container)
        entries = content(launch, paths.job, kept_control(paths), with_checkpoint=not site.shared)
        containers.put(container, pack(entries, identity(launch, rules)))
        if launch.spec.command and (program := command_of(launch)[0]) != SHELL:
            _check_program(program, launch, containers, container, variable_of(image, "PATH"))
    except Unreachable:
        raise
    except (OSError, ExecutorError):
        containers.remove(container)
        raise
    return container


def _check_program(program: str, launch: Launch, containers: Containers, container: str, path: str) -> None:
    """The init, and not the program, is what the engine starts: a program that is missing would look like a failure."""
    search = [""] if "/" in program else (launch.spec.env.get("PATH") or path or _USUAL_PATH).split(":")
    found = [containers.look_at(container, posixpath.join(WORK, folder, program)) for folder in search]
    if not any(found):
        raise ExecutorError(f"command not found: {program}")
    if not any(stat["mode"] & _EXECUTABLE for stat in found if stat):
        raise ExecutorError(f"not executable: {program}")


def _orders(launch: Launch, ids: tuple[int, int], network: str, why_shared: str) -> dict[str, object]:
    """What must be known at the end, even by the next life of the service."""
    return {
        "node": launch.node,
        "uid": ids[0],
        "gid": ids[1],
        "memory": launch.spec.resources.memory,
        "carries_group": carries_group(launch),
        "several": launch.spec.workers.max > 1 or launch.spec.resizes_live,
        "network": network,
        "why_shared": why_shared,
    }
