"""One machine by hand: containers that use what they may, report when they are told to, and come and go."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.share.division import max_min
from schedulearn.core.policies.sharing import Container, Share, Shares, Values


@dataclass
class Tenant:
    arrived: float
    wants: float  # cores that it would use
    least: float
    most: float
    limit: float = math.inf
    used: float = 0.0
    work: float | None = None  # core-seconds that it needs in all; None: nobody can tell
    off: float = 1.0  # times that, by the estimate
    doubt: float = 1.0  # the estimate's range, as a factor both ways
    reached: bool = False  # its target
    reports: list[tuple[float, float]] = field(default_factory=list)
    other: dict[str, float] = field(default_factory=dict)  # MB: held, moved since it arrived


class Machine:
    """Implements `policies.sharing.ShareNode`. `look` asks the stage, and sets what it says."""

    def __init__(self, stage: Share, cores: float = 1.0) -> None:
        self.stage, self.cores, self.now, self.name = stage, cores, 0.0, NodeName("m")
        self.tenants: dict[JobId, Tenant] = {}
        self.memory: dict[str, Any] = {}
        self.answers: list[tuple[float, Shares]] = []

    # --- what happens

    def arrive(
        self, job: int, wants: float | None = None, least: float = 0.0, most: float | None = None, **more: Any
    ) -> Shares:
        whole = self.cores
        wants, most = (whole if wants is None else wants), (whole if most is None else most)
        self.tenants[JobId(job)] = Tenant(self.now, wants, least, most, **more)
        return self.look()

    def leave(self, job: int) -> Shares:
        del self.tenants[JobId(job)]
        return self.look()

    def report(self, values: dict[int, float | None]) -> None:
        for job, value in values.items():
            if value is not None:
                self.tenants[JobId(job)].reports.append((self.now, value))

    def pass_time(self, seconds: float) -> None:
        tenants = list(self.tenants.values())
        shares = max_min(self.cores, [min(t.wants, t.limit, t.most) for t in tenants])
        for tenant, share in zip(tenants, shares, strict=True):
            tenant.used += share * seconds
        self.now += seconds

    def interval(self, values: dict[int, float | None]) -> Shares:
        """Until the stage wants to look again; shortly before that the containers report."""
        wake = self.answers[-1][1].wake_at
        assert wake is not None
        self.pass_time((wake - self.now) / 2)
        self.report(values)
        self.pass_time(wake - self.now)
        return self.look()

    def look(self) -> Shares:
        answer = self.stage.share(self, self.memory)
        self.memory = json.loads(json.dumps(self.memory, allow_nan=False))  # plain JSON, as after a restart
        for job, cores in answer.limits.items():
            self.tenants[job].limit = cores
        self.answers.append((self.now, answer))
        return answer

    # --- what came of it

    def limits(self) -> dict[int, float]:
        return {int(job): tenant.limit for job, tenant in self.tenants.items()}

    def lists(self) -> dict[int, str]:
        """As FlowCon keeps them."""
        return {int(job): kept["list"] for job, kept in self.memory["flowcon.containers"].items()}

    # --- as a stage sees it

    def containers(self) -> list[Container]:
        return [
            Container(job, t.arrived, t.least, t.most, t.limit if t.limit < math.inf else None, t.reached)
            for job, t in self.tenants.items()
        ]

    def cpu_seconds(self, job: JobId) -> float:
        return self.tenants[job].used

    def other_use(self, job: JobId) -> dict[str, float]:
        return self.tenants[job].other

    def evaluation(self, job: JobId, since: float) -> float | None:
        values = [value for at, value in self.tenants[job].reports if at > since]
        return sum(values) / len(values) if values else None

    def values(self, job: JobId, since: float) -> Values | None:
        found = [value for at, value in self.tenants[job].reports if at > since]
        return Values(found[0], found[-1], len(found)) if found else None

    def left(self, job: JobId) -> Estimate | None:
        tenant = self.tenants[job]
        left = None if tenant.work is None else max(0.0, tenant.work * tenant.off - tenant.used)
        return None if left is None else Estimate(left / tenant.doubt, left, left * tenant.doubt)
