"""What a worker uses of its machine, and what it may use."""

from dataclasses import dataclass

USUAL_WEIGHT = 100  # of a worker that nobody gave another one
WEIGHTS = (1, 10_000)  # the least and the most


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of its machine a worker may use. None: leave that as it is; in what was read: there is no such limit."""

    cpus: float | None = None  # cores, as a cap; a fraction is kept as it is
    weight: int | None = None  # its part where workers compete for cores; 100 is usual
    memory: int | None = None  # bytes

    def over(self, others: "Limits") -> "Limits":
        """These where they say something, else the others."""
        return Limits(
            others.cpus if self.cpus is None else self.cpus,
            others.weight if self.weight is None else self.weight,
            others.memory if self.memory is None else self.memory,
        )

    def times(self, workers: int) -> "Limits":
        """Of so many workers together. The weight stays: it is not an amount."""
        return Limits(
            None if self.cpus is None else self.cpus * workers,
            self.weight,
            None if self.memory is None else self.memory * workers,
        )

    def shared_by(self, workers: int) -> "Limits":
        """The inverse of `times`."""
        return Limits(
            None if self.cpus is None else self.cpus / workers,
            self.weight,
            None if self.memory is None else self.memory // workers,
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """What a worker has used since it started, all its processes together. None: its machine cannot tell."""

    at: float  # seconds since the epoch
    cpu_seconds: float  # core-seconds
    memory: int | None = None  # bytes held now, without what the system could drop at once
    read_bytes: int | None = None  # from block devices
    written_bytes: int | None = None
    received_bytes: int | None = None  # over the network; None also where it shares the machine's network
    sent_bytes: int | None = None
    energy: float | None = None  # joules
    limits: Limits = Limits()  # in force at that moment, as the kernel says


def cores_used(before: Usage, after: Usage) -> float | None:
    """The mean number of cores in use between two looks; None if no time has passed, or counting began anew."""
    seconds, used = after.at - before.at, after.cpu_seconds - before.cpu_seconds
    return used / seconds if seconds > 0 and used >= 0 else None
