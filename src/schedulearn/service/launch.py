"""What an executor needs to start the workers of an attempt."""

import socket
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from schedulearn.domain.ids import NodeName
from schedulearn.domain.job import Attempt, Job
from schedulearn.domain.ports import Launch
from schedulearn.service.auth import hash_token, new_token
from schedulearn.service.config import DataFolder
from schedulearn.store import Store


class Launcher:
    """Makes the launches of an attempt: tokens, ports, identities."""

    def __init__(self, store: Store, folder: DataFolder) -> None:
        self._store, self._folder = store, folder

    def launches(self, job: Job, attempt: Attempt, now: float, ranks: Collection[int] | None = None) -> list[Launch]:
        """Those of these workers (None: of all that count); later ones join a group that is there."""
        token = new_token()
        self._store.add_token(job.user, f"attempt {attempt.id}", hash_token(token), now, attempt.id)
        user = self._store.user(job.user)
        url = self._store.setting("url", "")  # the API may be another process
        port = _free_port() if job.spec.workers.max > 1 else 0
        crew, here = attempt.crew, Counter[NodeName]()
        launches = []
        for worker in crew:
            launches.append(
                Launch(
                    worker=worker.id,
                    node=worker.node,
                    spec=job.spec,
                    devices=worker.devices,
                    cpu_limit=job.cpus,
                    world_size=len(crew),
                    group=attempt.group,
                    local_rank=here[worker.node],
                    master_port=port,
                    snapshot=self._snapshot(job),
                    url=url,
                    token=token,
                    uid=user.uid if user else None,
                    gid=user.gid if user else None,
                )
            )
            here[worker.node] += 1
        return [one for one in launches if ranks is None or one.worker.rank in ranks]

    def _snapshot(self, job: Job) -> Path | None:
        sha = job.spec.snapshot
        return self._folder.snapshots / f"{sha}.tar.gz" if sha else None


def _free_port() -> int:
    """A port that is free now. A fixed one would collide as soon as two jobs share a node."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
