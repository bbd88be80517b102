"""What the processes of one worker use on this machine: by their control groups, by /proc, by the meters of energy."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from schedulearn.core.domain.ids import DeviceId, WorkerId
from schedulearn.core.domain.usage import Usage
from schedulearn.executors.kernel.energy import EnergyMeter
from schedulearn.executors.kernel.groups import Cgroups, Counters, read_counters, read_limits

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look for one worker."""

    groups: Cgroups
    pid: int  # of a process in its network
    devices: tuple[DeviceId, ...] = ()  # its GPUs


def measure(
    worker: WorkerId, place: Place, energy: EnergyMeter, now: float, complete: Callable[[Counters], Counters]
) -> Usage | None:
    """None: it has just ended. `complete` fills in what its groups did not count."""
    try:
        limits, counted = read_limits(place.groups), complete(read_counters(place.groups))
    except OSError:
        return None
    if counted.cpu_seconds is None:
        return None
    received, sent = network_bytes(place.pid)
    return Usage(
        now,
        counted.cpu_seconds,
        counted.memory,
        counted.read_bytes,
        counted.written_bytes,
        received,
        sent,
        energy.joules(worker, counted.cpu_seconds, place.devices),
        limits,
    )


def network_bytes(pid: int, proc: Path = PROC) -> tuple[int | None, int | None]:
    """Received and sent, by all that share the process's network; None where that is the machine's own network."""
    try:
        if (proc / str(pid) / "ns" / "net").readlink() == (proc / "self" / "ns" / "net").readlink():
            return None, None
        lines = (proc / str(pid) / "net" / "dev").read_text().splitlines()[2:]  # below two lines of headings
    except OSError:
        return None, None
    received = sent = 0
    for line in lines:
        name, _, numbers = line.partition(":")
        if name.strip() != "lo":
            columns = numbers.split()
            received, sent = received + int(columns[0]), sent + int(columns[8])
    return received, sent


def block_traffic(pids: Iterable[int]) -> tuple[int, int] | tuple[None, None]:
    """Bytes read and written by these processes, with the children that they waited for; None: that may not be seen."""
    read = written = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/io") as file:
                values = {name: int(value) for name, _, value in (line.partition(": ") for line in file)}
        except PermissionError:
            return None, None
        except OSError:
            continue  # it has ended meanwhile
        read, written = read + values["read_bytes"], written + values["write_bytes"]
    return read, written
