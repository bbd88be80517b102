"""People who submit jobs and change their minds, while the service comes and goes. They remember what was answered."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulearn.client import ApiError, Client, ServiceUnreachable
from support.jobs import spec
from support.outside.diary import PROGRAM
from support.outside.plan import Act, JobPlan, Plan

_PEOPLE = 3
_PAUSE = 0.1  # seconds before each try to submit
_ANSWER_WITHIN = 5.0  # seconds: then a call counts as lost


@dataclass(slots=True)
class Known:
    """What was done to one job, as those who did it know it. "Tried" may have been carried out, "done" was."""

    id: int = 0  # 0: nobody was told that it was taken
    unsure: bool = False  # it was sent, and no answer came
    cancel_tried: bool = False
    rm_tried: bool = False
    rm_done: bool = False
    paused: bool = False  # as far as its user knows; whoever is told that it is not will not resume it
    hits: int = 0  # how often its workers were killed


class Users:
    """`clock` counts the seconds since the beginning."""

    def __init__(
        self, plan: Plan, diaries: Path, client: Callable[[float], Client], clock: Callable[[], float]
    ) -> None:
        self._plan, self._diaries, self._client, self._clock = plan, diaries, client, clock
        self.known = [Known() for _ in plan.jobs]
        self.told: list[str] = []  # what was done and what came of it
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._live, args=(person,)) for person in range(_PEOPLE)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Whoever still tries does it once more. That works, if the service is well again."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _live(self, person: int) -> None:
        """All that concerns one job is done by one person, in its order."""
        mine = range(person, len(self._plan.jobs), _PEOPLE)
        todo: list[tuple[float, int, Act | None]] = [(self._plan.jobs[job].at, job, None) for job in mine]
        todo += [(act.at, act.job, act) for act in self._plan.acts if act.job in mine]
        with self._client(_ANSWER_WITHIN) as client:
            for at, job, act in sorted(todo, key=lambda one: one[0]):
                time.sleep(max(0.0, at - self._clock()))
                if act is None:
                    self._submit(client, job)
                else:
                    self._act(client, act)

    def _submit(self, client: Client, number: int) -> None:
        """The client sends it again by itself while answers are lost. Where nobody listened at all we try anew."""
        job, known = self._plan.jobs[number], self.known[number]
        last = False
        while not (known.id or known.unsure or last):
            last = self._over.wait(_PAUSE)
            try:
                known.id = client.submit(job_spec(job, self._plan.variant, self._diaries))["id"]
            except ServiceUnreachable as problem:
                known.unsure = not isinstance(problem.__cause__, ConnectionRefusedError)
            except ApiError as problem:  # the disk is full, and it says so: nothing was taken
                if problem.status < 500:
                    raise
        self._tell(f"submitted {job.name} as {known.id or 'nobody knows what'}")

    def _act(self, client: Client, act: Act) -> None:
        known, name = self.known[act.job], self._plan.jobs[act.job].name
        if not known.id:
            return
        known.cancel_tried |= act.what == "cancel"
        known.rm_tried |= act.what == "rm"
        calls: dict[str, Callable[[int], Any]] = {
            "cancel": client.cancel, "pause": client.pause, "resume": client.resume, "rm": client.delete,
            "update": lambda job: client.update(job, priority=60 + act.job),
        }  # fmt: skip
        try:
            calls[act.what](known.id)
        except ApiError as problem:
            self._tell(f"{act.what} {name}: {problem}")
            known.paused &= act.what != "resume"
            return
        except ServiceUnreachable:
            known.paused |= act.what == "pause"
            self._tell(f"{act.what} {name}: no answer")
            return
        known.rm_done |= act.what == "rm"
        known.paused = act.what == "pause" or (known.paused and act.what != "resume")
        self._tell(f"{act.what} {name}")

    def _tell(self, what: str) -> None:
        self.told.append(f"{self._clock():5.1f} {what}")


def job_spec(job: JobPlan, variant: str, diaries: Path) -> dict[str, Any]:
    python = "python3" if variant == "docker" else sys.executable
    stubborn = "stubborn" if job.stubborn else "obedient"
    command = [python, "-S", "-c", PROGRAM, str(diaries / job.name), str(job.seconds), str(job.code), stubborn]
    more: dict[str, Any] = {"mounts": [f"{diaries}:{diaries}:rw"]} if variant == "docker" else {}
    if job.time_limit:
        more["time_limit"] = job.time_limit
    return spec(
        command, name=job.name, resources={"cpus": "0.2..1"}, workers=job.workers, max_restarts=job.restarts,
        grace=1, **more,
    )  # fmt: skip
