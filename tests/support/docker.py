"""Real Docker Engines for tests: daemons of our own, each with its own data, socket and processes.

Nothing that runs on the machine already is used or touched. `daemons` is a fixture for the whole session; a test that
needs engines skips, with the reason, where none can be had.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.kernel.procfs import all_pids, descendants
from support.base_image import CHANGES, IMAGE, base_image

START_WITHIN = 60.0  # seconds
STOP_WITHIN = 60.0
_PR_SET_PDEATHSIG = 1


GUARDED = 4  # has a network of its own machine's kind, with a firewall that touches nobody else's
_IN_ITS_OWN = ["unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]


class Daemon:
    """One engine: a server of its own as far as anybody can tell."""

    def __init__(self, folder: Path, number: int, disk: int = 0) -> None:
        """`disk` is the size in bytes of a small disk of its own; 0: it uses the machine's."""
        self.folder, self.number, self.disk = folder, number, disk
        self.guarded = number == GUARDED
        self.address = f"unix://{folder}/docker.sock"
        self.bridge = f"slt{os.getpid() % 100_000}-{number}" if number == 0 else ""
        self._settings = folder / "daemon.json"
        self.live_restore = True  # what containers do while their daemon is away is part of what is tested
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def start(self) -> None:
        """Returns when it answers; pytest.skip if it never has, a failure if it did before."""
        again = self._process is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        # Daemons that share the machine's own key would have one id between them.
        self._settings.write_text(json.dumps({"deprecated-key-path": f"{self.folder}/key.json"}))
        if self.disk and not (self.folder / "data").is_mount():
            _mount_small_disk(self.folder / "data", self.disk)
        if self.bridge and not _make_bridge(self.bridge):
            self.bridge = ""
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True, preexec_fn=_end_with_parent,
            )  # fmt: skip
        deadline = time.monotonic() + START_WITHIN
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                lines = (self.folder / "log").read_text("utf-8", "replace").splitlines()
                why = f"dockerd does not start: {lines[-1] if lines else 'it says nothing'}"
                pytest.fail(why) if again else pytest.skip(why)
            time.sleep(0.05)

    def _command(self) -> list[str]:
        network = ["--bridge", self.bridge or "none", "--iptables=false", "--ip6tables=false", "--ip-masq=false"]
        if (
            self.bridge
        ):  # what `host-gateway` is: Docker 20.10 forgets it when it starts beside running containers (moby#42753)
            network += ["--host-gateway-ip", _gateway()]
        folders = {"--data-root": "data", "--exec-root": "run", "--pidfile": "pid"}
        places = [word for option, name in folders.items() for word in (option, str(self.folder / name))]
        # What containers do while their daemon is away is part of what is tested.
        places += ["--config-file", str(self._settings)]
        live = f"--live-restore={str(self.live_restore).lower()}"
        words = ["dockerd", "-H", self.address, *places, live, "--storage-driver", "overlay2"]
        return [*_IN_ITS_OWN, *words] if self.guarded else [*words, *network]

    def answers(self) -> bool:
        try:
            with self.client(timeout=2) as client:
                return bool(client.ping())
        except Exception:
            return False

    def client(self, timeout: float = 60) -> Any:
        """A client of the Docker SDK; use it as a context manager."""
        return _Client(Engine(self.address).client(timeout))

    def stop(self) -> None:
        """As `systemctl stop docker` does. Containers go on."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Its containerd dies with it, its containers do not."""
        self._end(signal.SIGKILL)
        # Where nobody buries orphans, the next daemon would take a dead containerd for a living one.
        (self.folder / "run/containerd/containerd.pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def clean(self) -> None:
        """Remove every container and network, so that the next test finds none."""
        with self.client() as client:
            for container in client.api.containers(all=True):
                with suppress(Exception):
                    client.api.remove_container(container["Id"], force=True, v=True)
            for network in client.api.networks(filters={"type": "custom"}):
                with suppress(Exception):
                    client.api.remove_network(network["Id"])

    def remove(self) -> None:
        """The daemon, its containers and all that is theirs."""
        if self._process and self._process.poll() is None:
            self.thaw()
        elif self._process:
            with suppress(BaseException):
                self.start()  # only a daemon can take its containers away
        with suppress(Exception):
            self.clean()
        self.stop()
        _kill_shims(self.folder)
        if self.bridge:
            _ip("link", "del", self.bridge)
        for mount in reversed(_mounts_below(self.folder)):
            subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Daemons:
    """Servers, started when they are first asked for. Tests use 0, 1 and 2, 3 with a small disk, 4 with a firewall."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sl-docker-", dir="/tmp"))  # a socket's path must be short
        self._daemons: dict[int, Daemon] = {}

    def __call__(self, number: int = 0, disk: int = 0) -> Daemon:
        daemon = self._daemons.get(number)
        if daemon is None:
            daemon = self._daemons[number] = Daemon(self._folder / str(number), number, disk)
            daemon.start()
            load_image(daemon)
        elif not daemon.answers():
            daemon.start()
        return daemon

    def clean(self) -> None:
        for daemon in self._daemons.values():
            with suppress(Exception):
                daemon.clean()

    def close(self) -> None:
        with ThreadPoolExecutor(len(self._daemons) or 1) as all_at_once:
            list(all_at_once.map(Daemon.remove, self._daemons.values()))
        shutil.rmtree(self._folder, ignore_errors=True)


def load_image(daemon: Daemon) -> None:
    """The base image, made from what is on this machine: no registry is needed."""
    with daemon.client(timeout=300) as client:
        if not client.images.list(name=IMAGE):
            client.api.import_image_from_file(str(base_image()), IMAGE, "latest", changes=CHANGES)


@pytest.fixture(scope="session")
def daemons() -> Iterator[Daemons]:
    """`daemons(0)` is an engine with a bridge network if that is possible, 1 and 2 have none."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a Docker Engine")
    if not shutil.which("dockerd"):
        pytest.skip("there is no dockerd: scripts/system-packages installs it")
    found = Daemons()
    try:
        yield found
    finally:
        found.close()


class _Client:
    """Closes its connections at the end of a `with`; otherwise the SDK's own client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close()


def _end_with_parent() -> None:
    """Even a test run that is killed leaves no daemon."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _mount_small_disk(folder: Path, size: int) -> None:
    folder.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine lets us mount nothing: {done.stderr.strip()}")


def _kill_shims(folder: Path) -> None:
    """Whatever a daemon left that could not be started again, with the containers below it."""
    for pid in all_pids():
        with suppress(OSError):
            if f"{folder}/".encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                for one in (*descendants(pid), pid):
                    os.kill(one, signal.SIGKILL)


def _make_bridge(name: str) -> bool:
    steps: list[tuple[str, ...]] = [
        ("link", "add", name, "type", "bridge"),
        ("addr", "add", f"{_gateway()}/24", "dev", name),
        ("link", "set", name, "up"),
    ]
    if Path(f"/sys/class/net/{name}").exists():
        return True
    return shutil.which("ip") is not None and all(_ip(*step) for step in steps)


def _gateway() -> str:
    """The machine's address on the bridge; another process of tests has another one."""
    return f"10.{213 + os.getpid() % 40}.{os.getpid() // 40 % 250}.1"


def _ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0


def _mounts_below(folder: Path) -> list[str]:
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]
