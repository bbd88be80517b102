"""What an executor needs to start the workers of an attempt."""

import random
import socket
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from schedulearn.core.domain import spec
from schedulearn.core.domain.ids import DeviceId, NodeName
from schedulearn.core.domain.job import Attempt, Job, Worker
from schedulearn.core.domain.ports import HERE, Launch
from schedulearn.service.common.auth import hash_token, new_token
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.identity import LARGEST, Identities
from schedulearn.store import Store, UserRow


class Launcher:
    """Makes the launches of an attempt: tokens, ports, identities."""

    def __init__(self, store: Store, folder: DataFolder, identities: Identities) -> None:
        self._store, self._folder, self._identities = store, folder, identities
        self._ports = Ports()

    def launches(self, job: Job, attempt: Attempt, now: float, ranks: Collection[int] | None = None) -> list[Launch]:
        """Those of these workers (None: of all that count); later ones join a group that is there."""
        token = new_token()
        self._store.add_token(job.user, f"attempt {attempt.id}", hash_token(token), now, attempt.id)
        ids = self._ids(job, {worker.node for worker in attempt.crew})
        url = self._store.setting("url", "")  # the API may be another process
        crew, here = attempt.crew, Counter[NodeName]()
        port, together = self._ports.next(), len({worker.node for worker in crew}) == 1
        leader = HERE if together else self._host_of(crew[0].node, url)
        elsewhere = job.spec.resizes_live and self._could_join(job, crew[0].node)
        launches = []
        for worker in crew:
            launches.append(
                Launch(
                    worker=worker.id,
                    node=worker.node,
                    spec=job.spec,
                    devices=_visible(worker, job, attempt),
                    cpu_limit=job.cpus,
                    world_size=len(crew),
                    group=attempt.group,
                    local_rank=here[worker.node],
                    master_addr=leader,
                    master_port=port,
                    together=together,
                    elsewhere=elsewhere,
                    snapshot=self._snapshot(job),
                    url=url,
                    token=token,
                    uid=ids[worker.node][0],
                    gid=ids[worker.node][1],
                )
            )
            here[worker.node] += 1
        return [one for one in launches if ranks is None or one.worker.rank in ranks]

    def _ids(self, job: Job, nodes: Collection[NodeName]) -> dict[NodeName, tuple[int, int] | tuple[None, None]]:
        """The uid and gid of its workers on each of these nodes. A removed user has no rights at all."""
        user = self._store.user_of(job.id)  # not by name, which may be another user's by now
        user = user or UserRow(job.user, "user", id=LARGEST)
        containers = {node.name for node in self._store.list_nodes() if node.executor == "docker"}
        known = self._identities
        return {
            node: known.in_container(user) if node in containers else known.as_process(user) or (None, None)
            for node in nodes
        }

    def _host_of(self, name: NodeName, url: str) -> str:
        """Where workers on other nodes find one on this node; this machine is where jobs find the API."""
        node = next((node for node in self._store.list_nodes() if node.name == name), None)
        return (node.host if node else "") or urlsplit(url).hostname or HERE

    def _could_join(self, job: Job, node: NodeName) -> bool:
        """Whether workers may join on other nodes than this one."""
        shape = job.shape
        return not shape.one_node and any(
            shape.suits(other) for other in self._store.list_nodes() if other.name != node
        )

    def _snapshot(self, job: Job) -> Path | None:
        sha = job.spec.snapshot
        return self._folder.snapshots / f"{sha}.tar.gz" if sha else None


def _visible(worker: Worker, job: Job, attempt: Attempt) -> tuple[DeviceId, ...]:
    """The devices that a worker may use. Horovod runs the processes of all workers in worker 0."""
    if job.spec.launcher is not spec.Launcher.HOROVOD:
        return worker.devices
    return tuple(device for one in attempt.workers for device in one.devices) if worker.id.rank == 0 else ()


class Ports:
    """Ports for rendezvous: a fixed one would collide as soon as two jobs share a node.

    They lie below those that systems give to outgoing connections, one of which might take a port before its job
    listens; and none comes again before all others have come.
    """

    FIRST, LAST = 15_000, 29_999

    def __init__(self) -> None:
        self._last = random.randint(self.FIRST, self.LAST)  # the next life of the service begins elsewhere

    def next(self) -> int:
        """A port that is free on this machine now."""
        for _ in range(self.FIRST, self.LAST + 1):
            self._last = self._last + 1 if self._last < self.LAST else self.FIRST
            if _is_free(self._last):
                break
        return self._last


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
