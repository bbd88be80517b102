"""The ways to an engine on another machine: TLS and SSH, with real engines and a real SSH server on loopback."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.executors.docker.address import parse_address
from schedulearn.executors.docker.calls import Calls
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.exec import DockerExec
from schedulearn.executors.docker.tunnel import ssh_command, ssh_words
from support.base_image import IMAGE
from support.beside import outcome
from support.docker import Daemon, load_image
from support.engines import certificates, look_at, problem
from support.waiting import wait_until

# --- TLS


class TlsDaemon(Daemon):
    """An engine that also listens on TCP, for those with a certificate of its CA."""

    def __init__(self, folder: Path, tls: Path) -> None:
        super().__init__(folder, 9)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._tls = tls

    def _command(self) -> list[str]:
        files = {"--tlscacert": "ca.pem", "--tlscert": "server.pem", "--tlskey": "server-key.pem"}
        words = [word for option, name in files.items() for word in (option, str(self._tls / name))]
        return [*super()._command(), "-H", f"tcp://127.0.0.1:{self.port}", "--tlsverify", *words]


@pytest.fixture(scope="module")
def tls_engine(daemons: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TlsDaemon, Path]]:
    tls = certificates(tmp_path_factory.mktemp("tls"))
    daemon = TlsDaemon(tmp_path_factory.mktemp("d"), tls)
    daemon.start()
    yield daemon, tls
    daemon.remove()


def test_an_engine_over_tls(tls_engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, tls = tls_engine
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")  # no proxy stands between us and a server
    address = f"tcp://127.0.0.1:{daemon.port}"
    report = look_at(address, certificates=tls)
    assert report.node
    assert report.node.address == address
    per_host = tmp_path / "tls"
    shutil.copytree(tls, per_host / "127.0.0.1")
    assert look_at(address, certificates=per_host).node, "a folder for each host"
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tls))
    assert look_at(address).node, "Docker's own variable"


def test_a_command_in_a_container_over_tls(tls_engine: Any, tmp_path: Path) -> None:
    """It has a connection of its own, which TLS treats in its own way."""
    daemon, tls = tls_engine
    load_image(daemon)
    worker = WorkerId(JobId(1), 1, 0)
    containers = Containers(Calls(Engine(f"tcp://127.0.0.1:{daemon.port}", tls)), "ways")
    host = {"network_mode": "none"}
    made = containers.create({"image": IMAGE, "command": ["sleep", "1000"], "name": containers.name(worker),
                              "working_dir": "/work", "user": "65534:65534", "host_config": host})  # fmt: skip
    containers.start(made)
    command = DockerExec(containers).run(worker, ["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert outcome(command) == (b"out\n", b"err\n", 3)
    command = DockerExec(containers).run(worker, ["sh", "-c", "echo ready; exec sleep 1000"])
    output = iter(command)
    next(output)
    threading.Timer(0.01, command.end).start()  # from another thread, while this one waits for output
    assert list(output) == []
    assert command.exit_code == 137
    containers.remove(made)


def test_certificates_that_are_missing_or_wrong(tls_engine: Any, tmp_path: Path) -> None:
    daemon, tls = tls_engine
    address = f"tcp://127.0.0.1:{daemon.port}"
    assert "with TLS only" in problem(look_at(address, certificates=tmp_path / "none"))
    others = certificates(tmp_path / "others")
    assert "not trusted" in problem(look_at(address, certificates=others)), "another lab's server"
    shutil.copy(tls / "ca.pem", others / "ca.pem")
    words = problem(look_at(address, certificates=others))
    assert "TLS" in words, "the server does not know us"
    assert "signed our cert.pem" in words


def test_a_certificate_for_another_host(daemons: Any, tmp_path: Path, tmp_path_factory: Any) -> None:
    tls = certificates(tmp_path / "tls", "DNS:elsewhere.example")
    daemon = TlsDaemon(tmp_path_factory.mktemp("d"), tls)
    daemon.start()
    try:
        words = problem(look_at(f"tcp://127.0.0.1:{daemon.port}", certificates=tls))
    finally:
        daemon.remove()
    assert "not trusted" in words
    assert "name 127.0.0.1" in words


# --- SSH


def test_what_is_started_for_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = tmp_path / "s"
    words = ssh_command(parse_address("ssh://ann@gpu2:2222"), local)
    assert words[0] == "ssh"
    assert words[-2:] == ["gpu2", "exec cat"]
    assert words[-3] == "--", "a host is never taken for an option"
    assert "BatchMode=yes" in words
    for pair in (("-L", f"{local}:/var/run/docker.sock"), ("-l", "ann"), ("-p", "2222")):
        assert pair in list(pairwise(words))
    monkeypatch.setenv("SCHEDULEARN_SSH", "ssh -F '/etc/lab config'")
    assert ssh_command(parse_address("ssh://gpu2"), local)[:3] == ["ssh", "-F", "/etc/lab config"]


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("ann@gpu2: Permission denied (publickey).", "authorized_keys"),
        ("Host key verification failed.", "log in once by hand"),
        ("ssh: Could not resolve hostname gpu2", "no such host"),
        ("something new", "something new"),
    ],
)
def test_what_ssh_complains_of_is_answered_with_advice(said: str, advice: str) -> None:
    words = ssh_words(parse_address("ssh://ann@gpu2:2222"), said)
    assert advice in words
    assert "ssh -o BatchMode=yes -p 2222 ann@gpu2 true" in words


def test_an_ssh_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULEARN_SSH", "no-such-ssh")
    assert "ssh cannot be run" in problem(look_at("ssh://gpu2"))


class SshServer:
    """A real sshd on loopback, with keys of its own, and an ssh configuration that leads to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        for name in ("host", "mine", "unknown"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        shutil.copy(folder / "mine.pub", folder / "authorized_keys")
        host_key = (folder / "host.pub").read_text()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host_key}")
        (folder / "config").write_text(
            f"Host *\n UserKnownHostsFile {folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
            f" IdentitiesOnly yes\n IdentityAgent none\n IdentityFile {folder}/mine\n"
        )
        options = {"AuthorizedKeysFile": folder / "authorized_keys", "StrictModes": "no", "UsePAM": "no",
                   "HostKey": folder / "host", "PidFile": folder / "pid", "ListenAddress": f"127.0.0.1:{self.port}",
                   "PasswordAuthentication": "no", "PermitRootLogin": "yes"}  # fmt: skip
        (folder / "sshd_config").write_text("".join(f"{key} {value}\n" for key, value in options.items()))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        with open(folder / "log", "wb") as log:
            command = ["/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd_config"]
            self._process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(self._listens, 30, "sshd listens")

    def address(self, path: str) -> str:
        return f"ssh://{pwd.getpwuid(os.geteuid()).pw_name}@127.0.0.1:{self.port}{path}"

    def use_key(self, name: str) -> None:
        config = self.folder / "config"
        lines = [line for line in config.read_text().splitlines() if "IdentityFile" not in line]
        config.write_text("\n".join([*lines, f" IdentityFile {self.folder}/{name}\n"]))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    if not Path("/usr/sbin/sshd").exists() or not shutil.which("ssh"):
        pytest.skip("no SSH server is installed: scripts/system-packages does it")
    server = SshServer(tmp_path)
    monkeypatch.setenv("SCHEDULEARN_SSH", f"ssh -F {tmp_path}/config")
    yield server
    server.close()


def test_an_engine_behind_ssh(daemons: Any, sshd: SshServer) -> None:
    path = daemons(0).address.removeprefix("unix://")
    engine = Engine(sshd.address(path))
    try:
        with_tunnel = engine.client(10)
        assert with_tunnel.ping()
        again = engine.client(10)
        assert again.info()["ID"] == with_tunnel.info()["ID"]
        tunnel = engine._tunnel
        assert tunnel
        assert tunnel._process
        first = tunnel._process.pid
        tunnel._process.kill()  # the network breaks
        tunnel._process.wait()
        assert engine.client(10).ping(), "a new way is made"
        assert tunnel._process.pid != first
        for client in (with_tunnel, again):
            client.close()
    finally:
        engine.close()
    assert tunnel._process is None
    assert not tunnel._folder.exists()
    assert look_at(sshd.address(path), IMAGE).node


@pytest.mark.slow
def test_what_goes_wrong_with_ssh(tmp_path: Path, sshd: SshServer) -> None:
    words = problem(look_at(sshd.address(f"{tmp_path}/no-engine.sock"), timeout=5))
    assert "SSH gets into 127.0.0.1, but no engine answers" in words
    sshd.use_key("unknown")
    assert "authorized_keys" in problem(look_at(sshd.address("")))
    (tmp_path / "known_hosts").write_text("")
    assert "log in once by hand" in problem(look_at(sshd.address("")))


def test_the_tunnel_ends_with_the_service(daemons: Any, sshd: SshServer) -> None:
    """Even if the service is killed: ssh ends when nobody holds its standard input any more."""
    path = daemons(0).address.removeprefix("unix://")
    code = (
        "import sys, time; from schedulearn.executors.docker.connect import Engine\n"
        "engine = Engine(sys.argv[1]); engine.client(10)\n"
        "print(engine._tunnel._process.pid, engine._tunnel._folder, flush=True); time.sleep(1000)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, sshd.address(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    pid, folder = child.stdout.readline().split()
    child.kill()
    child.wait()
    child.stdout.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or _is_dead(int(pid)), 30, "ssh has ended")
    shutil.rmtree(folder)


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_closed_engine_makes_no_clients() -> None:
    engine = Engine("ssh://gpu2")
    engine.close()
    with pytest.raises(ExecutorError, match="closed"):
        engine.client()
