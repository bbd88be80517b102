"""The GPUs of an engine's machine: from NVML on this machine, from the engine itself on another."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from schedulearn.core.domain.ids import DeviceId
from schedulearn.core.domain.node import Device
from schedulearn.executors.docker.names import INSTANCE
from schedulearn.executors.kernel.machine import gpu_devices
from schedulearn.executors.kernel.procfs import descendants

log = logging.getLogger(__name__)
CDI_GPU = "nvidia.com/gpu="
_QUERY = ["--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits"]
_PATIENCE = 30  # seconds for the query to end
LABEL = "schedulearn.probe"  # on the container that asks; it is removed at once


def can_give_gpus(info: Mapping[str, Any]) -> bool:
    """Whether the engine knows how to put NVIDIA GPUs into a container."""
    return "nvidia" in (info.get("Runtimes") or {}) or bool(_discovered(info))


def gpus_here(client: Any, instance: str) -> tuple[Device, ...]:
    """Those of this machine, with who uses them besides the containers of this service."""
    own: set[int] = set()
    with suppress(Exception):  # the next look knows more; until then our own use may count as others'
        for container in client.api.containers(filters={"label": f"{INSTANCE}={instance}"}):
            pid = client.api.inspect_container(container["Id"])["State"]["Pid"]
            own |= {pid, *descendants(pid)} if pid else set()
    return gpu_devices(own)


def gpus_there(client: Any, info: Mapping[str, Any], image: str) -> tuple[Device, ...]:
    """Those of another machine: what the engine was told of them, else what a short container sees.

    Whether others use them is not known.
    """
    uuids = [*_discovered(info), *_generic(info)]
    if not image:
        return tuple(Device(DeviceId(uuid)) for uuid in uuids)
    try:
        return _ask_container(client, image)
    except Exception as error:
        log.info("the GPUs could not be asked for with a container of %s: %s", image, error)
        return tuple(Device(DeviceId(uuid)) for uuid in uuids)


def query_options(image: str) -> dict[str, Any]:
    """The container that runs nvidia-smi, which NVIDIA's toolkit puts into it; it may do nothing else."""
    from docker.types import DeviceRequest

    return {
        "image": image,
        "entrypoint": ["nvidia-smi"],
        "command": _QUERY,
        "device_requests": [DeviceRequest(driver="nvidia", count=-1, capabilities=[["gpu", "utility"]])],
        "labels": {LABEL: "gpus"},
        "user": "65534:65534",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "network_disabled": True,
        "mem_limit": "256m",
    }


def read_answer(text: str) -> tuple[Device, ...]:
    """From `GPU-8f…, NVIDIA A100-SXM4-40GB, 40960`, a line for each."""
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    return tuple(
        Device(DeviceId(row[0]), model=row[1], memory=int(row[2]) << 20 if row[2].isdigit() else 0)
        for row in rows
        if len(row) == 3 and row[0].startswith("GPU-")
    )


def _ask_container(client: Any, image: str) -> tuple[Device, ...]:
    container = client.containers.create(**query_options(image))
    try:
        container.start()
        container.wait(timeout=_PATIENCE)
        return read_answer(container.logs(stdout=True, stderr=False).decode("utf-8", "replace"))
    finally:
        with suppress(Exception):
            container.remove(force=True)


def _discovered(info: Mapping[str, Any]) -> list[str]:
    """From engines that read CDI files (28 and newer)."""
    ids = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()]
    return [text.removeprefix(CDI_GPU) for text in ids if text.startswith(f"{CDI_GPU}GPU-")]


def _generic(info: Mapping[str, Any]) -> list[str]:
    """From `node-generic-resources` in the engine's configuration."""
    named = [(entry.get("NamedResourceSpec") or {}).get("Value", "") for entry in info.get("GenericResources") or ()]
    return [str(value) for value in named if str(value).startswith("GPU-")]
