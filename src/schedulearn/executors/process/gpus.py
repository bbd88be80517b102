"""Which device files of GPUs a worker must not reach. Files are named by numbers, GPUs by ids; only NVML knows both.

All files that are there are denied but the worker's own, so a GPU that tells nothing of itself is denied, too. Where it
cannot be told which files are the worker's own, it is not started: it could be given another's.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import DeviceId
from schedulearn.executors.kernel.machine import gpu_minors

FOLDER = Path("/dev")
_NAME = re.compile(r"nvidia(\d+)")  # those of single GPUs; others (nvidiactl, nvidia-uvm) serve all of them


@dataclass(frozen=True, slots=True)
class Denied:
    """What a worker must not reach."""

    minors: tuple[int, ...] = ()
    files: tuple[str, ...] = ()  # of these, as far as there are any


def gpus_of_others(given: Collection[DeviceId]) -> Denied:
    """ExecutorError if it cannot be told which are its own. Asked anew for each worker: drivers may be loaded again."""
    files = {int(match[1]): str(path) for path in FOLDER.iterdir() if (match := _NAME.fullmatch(path.name))}
    minors = gpu_minors() if given else {}  # a worker that was given none needs no answer
    denied = sorted((files.keys() | set(minors.values())) - own_minors(given, minors, files))
    return Denied(tuple(denied), tuple(files[minor] for minor in denied if minor in files))


def own_minors(given: Collection[DeviceId], minors: Mapping[DeviceId, int], files: Collection[int]) -> set[int]:
    """The numbers of these GPUs. Each that NVML names has a file, or none has: so some can be told by what is left."""
    known = {minors[device] for device in given if device in minors}
    unknown = sorted(device for device in given if device not in minors)
    if not unknown:
        return known
    nobodys = set(files) - set(minors.values())
    if len(nobodys) > len(unknown):
        raise ExecutorError(
            f"NVML does not tell which device file is that of {', '.join(unknown)}, so others' could not be denied"
        )
    return known | nobodys
