"""The beginning of a container: made, filled, and started once."""

import posixpath
import threading
from dataclasses import dataclass
from typing import Any

from schedulearn.domain.errors import ExecutorError
from schedulearn.domain.node import Node
from schedulearn.domain.ports import Clock, Launch
from schedulearn.domain.resources import CPUS
from schedulearn.executors.common.archive import pack
from schedulearn.executors.common.environment import present_limits
from schedulearn.executors.common.folders import prepare_job_folders
from schedulearn.executors.common.launching import carries_group
from schedulearn.executors.common.paths import WorkerPaths, write_json
from schedulearn.executors.docker.calls import Unreachable
from schedulearn.executors.docker.containers import CREATED, Containers
from schedulearn.executors.docker.control import kept_control
from schedulearn.executors.docker.ending import owner_here
from schedulearn.executors.docker.images import Images, variable_of
from schedulearn.executors.docker.layers import Layers, Unwanted, setup_of
from schedulearn.executors.docker.options import SHELL, command_of, container_options, content, image_of, network_for
from schedulearn.executors.docker.output import Output
from schedulearn.executors.docker.rules import WORK, Rules, identity
from schedulearn.executors.docker.shared import SharedCheckpoints

_EXECUTABLE = 0o111
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Site:
    """Where workers are started: an engine, and what was decided for it."""

    containers: Containers
    images: Images
    layers: Layers
    rules: Rules
    node: Node
    clock: Clock
    log_cap: int
    shared: SharedCheckpoints | None


def begin(launch: Launch, paths: WorkerPaths, site: Site, unwanted: threading.Event) -> None:
    """Returns once the container has been started, now or before. The caller holds the worker's lock.

    A container is told to start only once. One that was made but not started (a crash, or an engine that did not
    answer, came between) is thrown away: whoever started it a second time could run it twice.
    """
    containers, name = site.containers, site.containers.name(launch.worker)
    found = containers.find(name)
    if found and found.status != CREATED:
        return
    if found:
        containers.remove(found.id)
    ids = identity(launch, site.rules)
    prepare_job_folders(launch.worker, paths.job, launch.snapshot, owner_here(ids))
    write_json(paths.launch, _orders(launch, ids), 0o600)
    cores = site.node.capacity[CPUS] or site.images.cores()
    write_json(paths.control, present_limits(launch, cores))
    image = _image(launch, paths, site, unwanted)
    _check_wanted(unwanted)
    container = _made(launch, paths, site, image)
    try:
        _check_wanted(unwanted)
        containers.start(container)
    except Unreachable:
        raise  # perhaps it runs
    except ExecutorError:
        containers.remove(container)
        raise
    write_json(paths.started, {"at": site.clock.now()})


def _check_wanted(unwanted: threading.Event) -> None:
    if unwanted.is_set():
        raise Unwanted


def _image(launch: Launch, paths: WorkerPaths, site: Site, unwanted: threading.Event) -> dict[str, Any]:
    """The image, as the engine describes it; what it takes to get it is told in the worker's log."""
    output = Output(paths.log, paths.anchors, site.log_cap)
    try:
        image = site.images.ready(image_of(launch, site.node.default_image, site.node.name), output)
        if not launch.spec.setup:
            return image
        setup = setup_of(launch.spec.setup, paths.job.run)
        return site.layers.ready(image, setup, launch.spec.resources.memory, output, unwanted)
    finally:
        output.close()


def _made(launch: Launch, paths: WorkerPaths, site: Site, image: dict[str, Any]) -> str:
    """The id of a container that has everything in it, and has not been started."""
    containers, rules = site.containers, site.rules
    more = [site.shared.bind(launch.worker, identity(launch, rules))] if site.shared else []
    network = network_for(launch, rules, site.images.usual_network())
    python_path = variable_of(image, "PYTHONPATH")
    options = container_options(launch, rules, image["Id"], containers.instance, network, more, python_path)
    container = containers.create(options)
    try:
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


def _orders(launch: Launch, ids: tuple[int, int]) -> dict[str, object]:
    """What must be known at the end, even by the next life of the service."""
    return {
        "node": launch.node,
        "uid": ids[0],
        "gid": ids[1],
        "memory": launch.spec.resources.memory,
        "carries_group": carries_group(launch),
        "several": launch.spec.workers.max > 1 or launch.spec.hot,
    }
