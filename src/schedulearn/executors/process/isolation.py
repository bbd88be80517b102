"""What separates the workers of this machine from each other, in words for its administrator."""

import os

from schedulearn.executors.process.cgroups import detect
from schedulearn.executors.process.view import detect_mounts


def isolation(own_users: str, has_gpus: bool) -> list[str]:
    """`own_users`: which uids workers have; "" where they run as the service itself."""
    cgroups, mounts = detect(), detect_mounts()
    groups = f"control groups: {', '.join(cgroups.held)}" if cgroups.held else "no control groups"
    if not own_users:
        rights = ["no capabilities, no new privileges"] if os.geteuid() != 0 else []
        return ["workers run as the service's own user, one domain of trust", *rights, groups]
    words = [f"own uids: {own_users}", "no capabilities, no new privileges"]
    if mounts.possible:
        hidden = "the data folder, the service's home" + (" and others' processes" if mounts.hide_processes else "")
        words.append(f"own mounts: {hidden} hidden; private /tmp, /var/tmp, /dev/shm")
    else:
        words.append(f"no own mounts: {mounts.problem}")
    if has_gpus and (mounts.possible or cgroups.devices):
        words.append("GPUs of others denied")
    return [*words, groups]
