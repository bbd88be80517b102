"""What processes read from and wrote to block devices, as /proc tells it."""

from collections.abc import Iterable


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
