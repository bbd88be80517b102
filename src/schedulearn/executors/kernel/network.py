"""What came and went over the network of a process that has one of its own."""

from pathlib import Path

PROC = Path("/proc")


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
