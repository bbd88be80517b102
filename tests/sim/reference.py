"""A second simulator, as plain and slow as can be, written from the rules alone. It shares no code with the first."""

from dataclasses import dataclass


@dataclass
class Plain:
    serial: int
    arrival: int
    duration: int
    gpus: int
    left: int = 0
    queue: int = 0
    attained: int = 0
    running: bool = False
    ended: int | None = None


def simulate(
    rows: list[tuple[int, int, int]], slots: int, rule: str, thresholds: tuple[int, ...] = ()
) -> list[int | None]:
    """When each job ends. Time goes second by second: everything is a whole number."""
    jobs = [Plain(i, a, d, g, left=d) for i, (a, d, g) in enumerate(rows)]
    lists: list[list[Plain]] = [[] for _ in range(len(thresholds) + 1)]
    possible = [job for job in jobs if job.gpus <= slots]
    now = min((job.arrival for job in jobs), default=0)
    while any(job.ended is None for job in possible):
        _finish(possible, lists, now)
        _demote(possible, lists, thresholds)
        for job in possible:
            if job.arrival == now:
                lists[0].append(job)
        _decide([j for j in possible if j.arrival <= now and j.ended is None], lists, slots, rule)
        # A job that takes no time ends at once, and its place is free at once.
        if any(job.running and job.left == 0 and job.ended is None for job in possible):
            continue
        for job in possible:
            if job.running:
                job.left -= 1
                job.attained += job.gpus
        now += 1
    return [job.ended for job in jobs]


def _finish(jobs: list[Plain], lists: list[list[Plain]], now: int) -> None:
    for job in jobs:
        if job.running and job.left == 0 and job.ended is None:
            job.ended, job.running = now, False
            lists[job.queue].remove(job)


def _demote(jobs: list[Plain], lists: list[list[Plain]], thresholds: tuple[int, ...]) -> None:
    for job in jobs:
        if not job.running:
            continue
        target = job.queue
        while target < len(thresholds) and job.attained >= thresholds[target]:
            target += 1
        if target != job.queue:
            lists[job.queue].remove(job)
            job.queue = target
            lists[target].append(job)


def _decide(active: list[Plain], lists: list[list[Plain]], slots: int, rule: str) -> None:
    if rule in ("strict", "fifo"):
        _start_only(active, slots, rule)
    elif rule == "las":
        _fill([job for one in lists for job in one], slots)
        for one in lists:
            one.sort(key=lambda job: not job.running)
    else:
        width = {"srtf": lambda job: 1, "srsf": lambda job: job.gpus}[rule]
        _fill(sorted(active, key=lambda job: (job.left * width(job), job.serial)), slots)


def _start_only(active: list[Plain], slots: int, rule: str) -> None:
    free = slots - sum(job.gpus for job in active if job.running)
    for job in sorted(active, key=lambda job: job.serial):
        if job.running:
            continue
        if job.gpus <= free:
            job.running, free = True, free - job.gpus
        elif rule == "strict":
            break


def _fill(ordered: list[Plain], slots: int) -> None:
    for job in ordered:
        job.running = job.gpus <= slots
        slots -= job.gpus * job.running
