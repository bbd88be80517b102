"""A workbench for the Docker executor: real containers on an engine of our own."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.ports import Launch
from schedulearn.executors.common.archive import Entry, pack, read_file
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.executor import DockerExecutor
from schedulearn.executors.docker.names import container_name
from schedulearn.executors.docker.rules import NONE_RUNNING
from support.base_image import IMAGE
from support.bench import NODE, SystemClock, Workbench, until
from support.docker import Daemon

DOCKER_NODE = replace(NODE, executor="docker", default_image=IMAGE)


class DockerBench(Workbench):
    """Use it as a context manager: at its end it fails if a container of this data folder is left."""

    def __init__(self, root: Path, daemon: Daemon) -> None:
        super().__init__(root)
        self.daemon = daemon

    def executor(self, **options: Any) -> DockerExecutor:
        sink = options.pop("sink", self.recorder)
        daemon: Daemon = options.pop("daemon", self.daemon)
        node: Node = options.pop("node", DOCKER_NODE)
        executor = DockerExecutor(self.root, sink, SystemClock(), node, Engine(daemon.address), **options)
        self.executors.append(executor)
        return executor

    def run(self, launch: Launch, **options: Any) -> Outcome:
        """In a life of its own: two lives at once would remove each other's networks."""
        executor = self.executor(**options)
        executor.start(launch)
        outcome = self.ended(launch)
        # Its end is told first, and its container is removed then: by nobody, if that life were over before.
        until(lambda: self.name(launch) not in self.containers(options.get("daemon")), "its container is removed")
        executor.close()
        return outcome

    def name(self, launch: Launch) -> str:
        return container_name(instance_of(self.root), launch.worker)

    def inspect(self, launch: Launch, daemon: Daemon | None = None) -> dict[str, Any]:
        """The worker's container as its engine describes it."""
        with (daemon or self.daemon).client() as client:
            told: dict[str, Any] = client.api.inspect_container(self.name(launch))
            return told

    def containers(self, daemon: Daemon | None = None) -> list[str]:
        """The names of all that are of this data folder."""
        with (daemon or self.daemon).client() as client:
            label = f"schedulearn.instance={instance_of(self.root)}"
            return [c["Names"][0][1:] for c in client.api.containers(all=True, filters={"label": label})]

    def networks(self, daemon: Daemon | None = None) -> list[str]:
        """The names of all that are of this data folder."""
        with (daemon or self.daemon).client() as client:
            label = f"schedulearn.instance={instance_of(self.root)}"
            return [network["Name"] for network in client.api.networks(filters={"label": label})]

    def content(self, launch: Launch, name: str) -> bytes:
        """From the container while there is one, then from where it was fetched to."""

        def look() -> bytes:
            with suppress(Exception), self.daemon.client() as client:
                chunks, _ = client.api.get_archive(self.name(launch), f"/work/{name}")
                return read_file(chunks, 1 << 20)
            path = self.paths(launch).job.run / name
            return path.read_bytes() if path.exists() else b""

        found: bytes = until(look, f"{name} written by the job")
        return found

    def touch(self, launch: Launch, name: str) -> None:
        with self.daemon.client() as client:
            client.api.put_archive(
                self.name(launch),
                "/work",
                b"".join(pack([Entry(name, content=b"", mode=0o644)], (NONE_RUNNING, NONE_RUNNING))),
            )

    def __enter__(self) -> "DockerBench":
        return self

    def __exit__(self, *_: object) -> None:
        for executor in self.executors:
            executor.close()
        try:  # the engine may still be removing one that somebody else asked it to remove
            until(lambda: not self.containers(), "no container is left behind")
        finally:
            self.daemon.clean()
