"""From a launch to the options of its container: all that a job may and may not do is decided here."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.usage import USUAL_WEIGHT, Limits
from schedulearn.executors.common.archive import Entry
from schedulearn.executors.common.environment import Places, worker_environment
from schedulearn.executors.common.launching import HOSTS, launched, needs_hosts, workers_in
from schedulearn.executors.common.paths import JobPaths
from schedulearn.executors.common.sitehook import hook_files, hook_folders
from schedulearn.executors.docker.mounts import Bind
from schedulearn.executors.docker.names import container_name, worker_labels
from schedulearn.executors.docker.networks import LOOPBACK, SHARED, Network
from schedulearn.executors.docker.rules import CHECKPOINT, CONTROL, WORK, Rules, identity
from schedulearn.executors.kernel.groups import PERIOD, quota_for, shares_for

INSIDE = f"{CONTROL}/inside"
PLACES = Places(
    f"{CONTROL}/token",
    CHECKPOINT,
    f"{CONTROL}/control.json",
    f"{CONTROL}/spool.jsonl",
    f"{CONTROL}/ack.json",
    INSIDE,
)
HOSTS_FILE = f"{CONTROL}/hosts"
SHELL = "/bin/sh"
HOST = "host.docker.internal"  # what a container on the bridge calls its machine
_OOM_SCORE = 500  # where a server runs out of memory, jobs go before the engine and the service
# A shell passes no signal on, and its end would take its children with it before they could save. So it stays until
# the program that runs has ended, and then goes on with nothing. One pipe for both outputs keeps their order.
_BEFORE_TEXT = "exec 2>&1\ntrap 'exit $?' TERM\n"


def container_options(
    launch: Launch,
    rules: Rules,
    image: str,
    instance: str,
    network: str | Network,
    binds: list[Bind],
    python_path: str = "",  # the image's own
) -> dict[str, Any]:
    """For `create_container`; the host's part of it is under `host_config`. `network`: the attempt's own, or a name."""
    uid, gid = identity(launch, rules)
    address = ""
    if isinstance(network, Network):
        if not launch.spec.resizes_live:
            launch = replace(launch, master_addr=network.address(first_rank(launch)))
            address = network.address(launch.worker.rank)
        network = network.name
    options: dict[str, Any] = {
        "image": image,
        "name": container_name(instance, launch.worker),
        "labels": worker_labels(instance, launch.worker),
        "user": f"{uid}:{gid}",
        "working_dir": WORK,
        "environment": container_environment(launch, network, python_path),
        "healthcheck": {"test": ["NONE"]},  # the image's own asks for a service, and a job is none
        "host_config": host_options(launch, rules, network, binds),
    }
    if address:
        options["networking_config"] = {network: {"ipv4_address": address}}
    # The image's own entry point is set aside: the command runs as it was written.
    return options | {"entrypoint": command_of(launch)} if launch.spec.command else options


def host_options(launch: Launch, rules: Rules, network: str, mounted: list[Bind]) -> dict[str, Any]:
    """For `create_host_config`."""
    from docker.types import DeviceRequest

    held = Limits(launch.cpu_limit, USUAL_WEIGHT, launch.spec.resources.memory).times(workers_in(launch))
    gpus = list(launch.devices)
    options = confinement(rules, network) | limit_options(held)
    options |= {"shm_size": launch.spec.resources.shm or rules.shm, "mounts": [bind.option() for bind in mounted]}
    if gpus:
        options["device_requests"] = [DeviceRequest(driver="nvidia", device_ids=gpus, capabilities=[["gpu"]])]
    return options


def limit_options(limits: Limits) -> dict[str, int]:
    """For a new container, and for `update_container`. Swap has the limit of memory: it would only make a job slow."""
    options: dict[str, int] = {}
    if limits.cpus is not None:
        options |= {"cpu_period": PERIOD, "cpu_quota": quota_for(limits.cpus)}
    if limits.weight is not None:
        options["cpu_shares"] = shares_for(limits.weight)
    if limits.memory is not None:
        options |= {"mem_limit": limits.memory, "memswap_limit": limits.memory}
    return options


def confinement(rules: Rules, network: str) -> dict[str, Any]:
    """What holds for every container of ours, whatever it runs. The engine's own filter of system calls stays on."""
    from docker.types import LogConfig, Ulimit

    rotation = {"max-size": str(rules.log_size), "max-file": str(rules.log_files)}
    return {
        "init": True,
        "privileged": False,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": rules.processes,
        "oom_score_adj": _OOM_SCORE,
        "ipc_mode": "private",
        "log_config": LogConfig(type="json-file", config=rotation),
        "ulimits": [Ulimit(name="core", soft=0, hard=0)],  # where they are written is the server's business
        "network_mode": network,
        "extra_hosts": {} if network == SHARED else {HOST: "host-gateway"},
    }


def first_rank(launch: Launch) -> int:
    """Of the worker that the others are told to meet at."""
    return launch.group.members[0] if launch.group and launch.group.members else 0


def command_of(launch: Launch) -> list[str]:
    command = launched(launch, HOSTS_FILE)
    return [SHELL, "-c", _BEFORE_TEXT + command] if isinstance(command, str) else list(command)


def container_environment(launch: Launch, network: str, python_path: str = "") -> dict[str, str]:
    """The image's own variables lie below these. A uid without a name has no home, and programs want both."""
    defaults = {
        "HOME": "/tmp",
        "USER": (user := str(launch.uid or "job")),
        "LOGNAME": user,
        "TINI_KILL_PROCESS_GROUP": "1",  # the init passes signals on to the whole group
        "PYTHONPATH": python_path,
    }
    env = worker_environment(launch, PLACES, defaults)
    return env | {"SCHEDULEARN_URL": _url_inside(launch.url, network)}


def _url_inside(url: str, network: str) -> str:
    """On the bridge, the service's loopback address would be the container itself."""
    parts = urlsplit(url)
    if network == SHARED or parts.hostname not in LOOPBACK:
        return url
    return urlunsplit(parts._replace(netloc=f"{HOST}:{parts.port}" if parts.port else HOST))


def content(launch: Launch, job: JobPaths, control: bytes, with_checkpoint: bool) -> list[Entry]:
    """What is put into the container before it starts: the run folder, the checkpoint, and the worker's own files."""
    return [
        Entry(WORK[1:], job.run),
        *([Entry(CHECKPOINT[1:], job.checkpoint)] if with_checkpoint else []),
        Entry(CONTROL[1:]),
        Entry(PLACES.token[1:], content=launch.token.encode(), mode=0o600),
        Entry(PLACES.control[1:], content=control, mode=0o644),
        Entry(PLACES.spool[1:], content=b"", mode=0o600),
        Entry(PLACES.ack[1:], content=b"", mode=0o600),
        Entry(INSIDE[1:]),
        *(Entry(f"{INSIDE[1:]}/{path}") for path in hook_folders()),
        *(Entry(f"{INSIDE[1:]}/{path}", content=data, mode=0o644) for path, data in hook_files().items()),
        *([Entry(HOSTS_FILE[1:], content=HOSTS.encode(), mode=0o644)] if needs_hosts(launch) else []),
    ]
