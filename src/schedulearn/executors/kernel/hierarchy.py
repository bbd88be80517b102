"""Where control groups are: the mounts of version 1 and 2, and the group that a process is in."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

V1, V2 = "cgroup", "cgroup2"
UNIFIED = ""  # how /proc/PID/cgroup names version 2


@dataclass(frozen=True, slots=True)
class Mount:
    point: Path
    root: str  # which part of the hierarchy is mounted there
    options: frozenset[str]

    def folder(self, group: str) -> Path:
        """Where the files of a group are."""
        inside = group.removeprefix(self.root) if self.root != "/" else group
        return self.point / inside.lstrip("/")


def read_mounts(mountinfo: str) -> Mapping[str, list[Mount]]:
    """All mounted hierarchies, by version."""
    found: dict[str, list[Mount]] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if kind and kind[0] in (V1, V2):
            found.setdefault(kind[0], []).append(Mount(Path(fields[4]), fields[3], frozenset(kind[2].split(","))))
    return found


def read_groups(text: str) -> dict[str, str]:
    """Controller → path of the process's group, from its /proc/PID/cgroup."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def folder_of(mounts: Mapping[str, list[Mount]], groups: Mapping[str, str], controller: str) -> Path | None:
    """Where the files of this controller are for a process in these groups; `UNIFIED` asks for version 2."""
    version = V2 if controller == UNIFIED else V1
    for mount in mounts.get(version, []):
        if controller in groups and (version == V2 or controller in mount.options):
            return mount.folder(groups[controller])
    return None
