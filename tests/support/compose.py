"""The service in containers, by compose.yaml as it is shipped, on an engine of the tests'."""

import json
import os
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import Client, ServiceUnreachable
from support.docker import Daemon
from support.service_image import BASE, ROOT, make_base
from support.waiting import wait_until

PATIENCE = 240.0  # seconds for one command; only matters when something is broken


def compose_program() -> list[str]:
    """`docker compose` or Debian's docker-compose; pytest.skip if there is neither."""
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) and not subprocess.run([*words, "version"], capture_output=True).returncode:
            return words
    pytest.skip("there is no docker-compose: scripts/system-packages installs it")


class Composed:
    """Builds, starts and stops what compose.yaml describes. Nothing of it is left at the end."""

    def __init__(self, daemon: Daemon) -> None:
        self._program, self._ssh = compose_program(), shutil.which("ssh")
        if not daemon.bridge or not self._ssh:
            pytest.skip("there is no bridge network" if self._ssh else "there is no ssh")
        self.daemon = daemon
        self.project = f"slt{os.getpid()}"
        self.subnet = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self.port = _free_port()
        self._env = os.environ | {
            "API_OPTIONS": "",
            "BASE_IMAGE": BASE,
            "COMPOSE_PROJECT_NAME": self.project,
            # Without the engine's own new builder, which Debian does not have.
            "COMPOSE_DOCKER_CLI_BUILD": "0",
            "DOCKER_BUILDKIT": "0",
            "DOCKER_GID": str(self._socket.stat().st_gid),
            "DOCKER_HOST": daemon.address,
            "DOCKER_SOCKET": str(self._socket),
            "JOB_IMAGE": "schedulearn",
            "PORT": str(self.port),
            "SCHEDULER_OPTIONS": "",
            "SUBNET": self.subnet,
        }

    @property
    def _socket(self) -> Path:
        return Path(self.daemon.address.removeprefix("unix://"))

    def start(self) -> None:
        with self.daemon.client(timeout=PATIENCE) as client:
            make_base(client, str(self._ssh))
        self("build")
        self("up", "--detach", "--no-build")

    def __call__(self, *words: str) -> str:
        """One command of compose; AssertionError, with what it said, if it fails."""
        command = [*self._program, "--file", str(ROOT / "compose.yaml"), *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
        return done.stdout

    def down(self) -> None:
        self("down", "--volumes")

    def client(self) -> Client:
        """From this machine, with a token made by the command line beside the API."""
        wait_until(self._answers, PATIENCE, "the API answers")
        made = self.run(self.inspect("api")["Id"], "schedulearn", "tokens", "create", "--user", "admin", "--json")
        return Client(f"http://127.0.0.1:{self.port}", json.loads(made)["token"])

    def _answers(self) -> bool:
        with Client(f"http://127.0.0.1:{self.port}", "none") as client, suppress(ServiceUnreachable):
            return client.health()["status"] == "ok"
        return False

    def inspect(self, service: str) -> Any:
        """The container of a service, as the engine describes it."""
        filters = {"label": [f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}"]}
        with self.daemon.client() as client:
            [found] = client.api.containers(all=True, filters=filters)
            return client.api.inspect_container(found["Id"])

    def run(self, container: str, *words: str, user: str = "") -> str:
        """A program beside what runs in a container; AssertionError, with what it said, if it fails."""
        with self.daemon.client() as client:
            beside = client.api.exec_create(container, list(words), user=user)["Id"]
            said = client.api.exec_start(beside).decode("utf-8", "replace")
            assert client.api.exec_inspect(beside)["ExitCode"] == 0, f"{' '.join(words)}: {said}"
            return said

    def left(self) -> dict[str, list[str]]:
        """What the engine still has of this project."""
        mine = {"label": f"com.docker.compose.project={self.project}"}
        with self.daemon.client() as client:
            return {
                "containers": [one["Id"] for one in client.api.containers(all=True, filters=mine)],
                "networks": [one["Name"] for one in client.api.networks(filters=mine)],
                "volumes": [one["Name"] for one in client.api.volumes(filters=mine)["Volumes"] or ()],
            }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
