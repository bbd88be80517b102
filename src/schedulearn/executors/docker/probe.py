"""What an engine has and whether it can be used, in words that a person can act on. Every call has a time-out."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from schedulearn.core.domain.errors import ExecutorError, InvalidSpec
from schedulearn.core.domain.image import check_image
from schedulearn.core.domain.node import Device, Node, NodeState
from schedulearn.core.domain.ports import Clock
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY, Resources
from schedulearn.core.domain.units import format_duration
from schedulearn.executors.docker.connect import OLDEST_API, TIMEOUT, Engine
from schedulearn.executors.docker.gpus import can_give_gpus, gpus_here, gpus_there
from schedulearn.executors.docker.images import network_of
from schedulearn.executors.docker.networks import SHARED
from schedulearn.executors.kernel.machine import gpu_devices

if TYPE_CHECKING:
    import docker

_NO_BRIDGE = ", host network"  # seen wherever nodes are listed
_CLOCK_OFF = 5.0  # seconds of difference that are worth a word
_LIMITS = {
    "MemoryLimit": "memory",
    "CpuCfsQuota": "CPU time",
    "PidsLimit": "the number of processes",
}


@dataclass(slots=True)
class Report:
    """What was found. With a problem the engine cannot be used; a note is for its administrator to know."""

    node: Node | None = None
    network: str = "bridge"  # which network mode containers get
    problems: list[tuple[str, str]] = field(default_factory=list)  # the field that is wrong, and why
    notes: list[str] = field(default_factory=list)


def probe(
    engine: Engine, wanted: Node, clock: Clock, *, instance: str = "", gpus: bool = True, timeout: float = TIMEOUT
) -> Report:
    """Look at an engine from all sides. `wanted` says what the administrator gave: name, image, labels.

    `gpus` is False where another node of the same machine gives out its GPUs.
    """
    report = Report()
    try:
        client = engine.client(timeout)
    except ExecutorError as error:
        report.problems.append(("address", str(error)))
        return report
    try:
        _examine(client, wanted, clock, report)
        if not report.problems:
            here = engine.address.on_this_machine
            info = client.info()
            devices = devices_of(client, wanted, here, instance) if gpus else ()
            if gpus:
                _gpus(info, devices, here, report)
            report.node = node_of(info, wanted, devices, report.network)
    except Exception as error:
        report.problems.append(("address", engine.words(error)))
    finally:
        client.close()
    return report


def look(client: "docker.DockerClient", wanted: Node, devices: tuple[Device, ...]) -> Node:
    """The node as its engine is now."""
    return node_of(client.info(), wanted, devices, network_of(client.api))


def node_of(info: Mapping[str, Any], wanted: Node, devices: tuple[Device, ...], network: str) -> Node:
    capacity = Resources({CPUS: info["NCPU"], MEMORY: info["MemTotal"], GPUS: len(devices)})
    found = replace(
        wanted,
        executor="docker",
        capacity=capacity,
        devices=devices,
        engine=str(info.get("ID") or ""),
        version=f"Docker {info.get('ServerVersion')}{_NO_BRIDGE if network == SHARED else ''}",
        state=NodeState.UP,
        lost_at=None,
        problem="",
    )
    return found.labelled(wanted.labels)


def devices_of(client: "docker.DockerClient", wanted: Node, on_this_machine: bool, instance: str) -> tuple[Device, ...]:
    """The GPUs that containers there can have."""
    info = client.info()
    if not can_give_gpus(info):
        return ()
    return gpus_here(client, instance) if on_this_machine else gpus_there(client, info, wanted.default_image)


# --- what is looked at


def _examine(client: "docker.DockerClient", wanted: Node, clock: Clock, report: Report) -> None:
    asked_at = clock.now()
    info = client.info()
    _clock(info, (asked_at + clock.now()) / 2, report)
    _engine(client, info, report)
    _image(client, wanted.default_image, report)
    report.network = network_of(client.api)
    if report.network == SHARED:
        report.notes.append("the engine has no bridge network: containers share the network of their machine")
    if not any("seccomp" in option and "unconfined" not in option for option in info.get("SecurityOptions") or ()):
        report.notes.append("its engine does not filter system calls (seccomp): a hole in its kernel is open to jobs")


def _engine(client: "docker.DockerClient", info: Mapping[str, Any], report: Report) -> None:
    from docker.utils import version_lt

    api = client.api.api_version
    if version_lt(api, OLDEST_API):
        version = info.get("ServerVersion")
        problem = f"Docker {version} (API {api}) is too old: 20.10 (API {OLDEST_API}) or newer is needed"
        report.problems.append(("address", problem))
    if info.get("OSType") != "linux":
        problem = f"it runs {info.get('OSType')} containers, and jobs need Linux ones"
        report.problems.append(("address", problem))
    missing = [words for key, words in _LIMITS.items() if info.get(key) is False]
    if missing:
        report.notes.append(f"its kernel cannot limit {', '.join(missing)}: jobs there are not held to that limit")


def _image(client: "docker.DockerClient", image: str, report: Report) -> None:
    import docker.errors

    if not image:
        report.notes.append("it has no default image: jobs that name no image are not placed there")
        return
    try:
        client.api.inspect_image(check_image(image))
    except InvalidSpec as error:
        report.problems.append(("image", error.problem))
    except docker.errors.ImageNotFound:
        problem = f"the server does not have {image}; bring it there first: docker pull {image}"
        report.problems.append(("image", problem))
    except docker.errors.APIError as error:
        report.problems.append(("image", f"{image}: {error.explanation or error}"))


def _clock(info: Mapping[str, Any], ours: float, report: Report) -> None:
    with suppress(KeyError, ValueError):
        theirs = datetime.fromisoformat(info["SystemTime"]).timestamp()
        if abs(theirs - ours) >= _CLOCK_OFF:
            where = "ahead" if theirs > ours else "behind"
            off = format_duration(abs(theirs - ours))
            report.notes.append(f"its clock is {off} {where}: jobs run, but set it right (chrony, systemd-timesyncd)")


def _gpus(info: Mapping[str, Any], devices: tuple[Device, ...], here: bool, report: Report) -> None:
    if here and not can_give_gpus(info) and (unused := len(gpu_devices())):
        report.notes.append(
            f"the machine has {unused} GPUs, but its engine cannot give them to containers: install NVIDIA's "
            "Container Toolkit, run `nvidia-ctk runtime configure`, and restart Docker"
        )
    elif can_give_gpus(info) and not devices:
        report.notes.append("its engine has the nvidia runtime, but no GPU was found (with its default image)")
    if devices and not here:
        report.notes.append("whether others use its GPUs outside of Schedulearn is not known")
