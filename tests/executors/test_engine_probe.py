"""The probe on real engines (over a socket, TLS and SSH), and on sockets behind which there is none."""

import json
import os
import socket
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

import pytest

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY
from schedulearn.executors.docker.gpus import LABEL, query_options, read_answer
from schedulearn.executors.docker.images import network_of
from support.base_image import IMAGE
from support.engines import Clock, certificates, look_at, problem

SHORT = 0.5  # seconds, for what never answers


# --- a real engine


def test_an_engine_that_can_be_used(daemons: Any) -> None:
    daemon = daemons(0)
    report = look_at(daemon.address, IMAGE)
    assert report.problems == []
    node = report.node
    assert node
    assert (node.name, node.executor, node.address, node.default_image) == ("gpu2", "docker", daemon.address, IMAGE)
    assert (node.state, node.labels) == (NodeState.UP, (("room", "b12"),))
    assert node.capacity[CPUS] == os.cpu_count()
    assert node.capacity[MEMORY] > 1e8
    assert (node.capacity[GPUS], node.devices) == (0, ())
    assert node.version.startswith("Docker ")
    assert ("host network" in node.version) == (not daemon.bridge)
    assert node.engine
    with daemon.client() as client:
        assert report.network == network_of(client.api) == ("bridge" if daemon.bridge else "host")


def test_an_engine_without_a_bridge_uses_the_network_of_its_machine(daemons: Any) -> None:
    report = look_at(daemons(1).address, IMAGE)
    assert report.network == "host"
    assert any("no bridge" in note for note in report.notes)
    assert report.node
    assert report.node.version.endswith(", host network")  # where nodes are listed


def test_a_default_image_that_is_not_there_is_named(daemons: Any) -> None:
    assert "docker pull nowhere/nothing:1" in problem(look_at(daemons(0).address, "nowhere/nothing:1"), "image")
    assert "Not an image" in problem(look_at(daemons(0).address, "Not an image"), "image")
    assert any("no default image" in note for note in look_at(daemons(0).address).notes)


@pytest.mark.parametrize(("ahead", "words"), [(-3600.0, "1 h ahead"), (90.0, "min"), (0.0, None)])
def test_a_clock_that_is_off_is_noticed(daemons: Any, ahead: float, words: str | None) -> None:
    notes = [note for note in look_at(daemons(0).address, clock=Clock(ahead)).notes if "clock" in note]
    assert [words in note for note in notes] == ([True] if words else [])


def test_a_frozen_engine_is_given_up_in_time(daemons: Any) -> None:
    daemon = daemons(1)
    daemon.freeze()
    try:
        assert "does not answer" in problem(look_at(daemon.address, timeout=SHORT))
    finally:
        daemon.thaw()


# --- no engine


def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no socket" in problem(look_at(f"unix://{tmp_path}/none.sock"))


def test_a_socket_that_nobody_listens_on(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    assert "nothing listens" in problem(look_at(f"unix://{tmp_path}/dead.sock"))


def test_a_socket_that_accepts_and_never_answers(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        assert "does not answer" in problem(look_at(f"unix://{tmp_path}/silent.sock", timeout=SHORT))


def test_a_socket_that_speaks_something_else(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other.sock"))
        other.listen()

        def greet() -> None:
            with other.accept()[0] as caller:
                caller.sendall(b"220 mail.example ESMTP\r\n")

        greeter = threading.Thread(target=greet)
        greeter.start()
        assert "does not speak as a Docker Engine" in problem(look_at(f"unix://{tmp_path}/other.sock", timeout=30))
        greeter.join()


def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    certificates(tmp_path)
    words = problem(look_at("tcp://no-such-host.invalid:2376", certificates=tmp_path))
    assert "no host no-such-host.invalid" in words


# --- engines of another kind, played by a small server


class FakeEngine(ThreadingMixIn, UnixStreamServer):
    """Answers as an engine would that has this to say of itself."""

    daemon_threads = True

    def __init__(self, path: Path, info: dict[str, Any], api: str = "1.41") -> None:
        usual = {"NCPU": 8, "MemTotal": 64 << 30, "OSType": "linux", "ServerVersion": "99.1", "ID": "X", "Runtimes": {}}
        answers = {
            "version": {"ApiVersion": api, "MinAPIVersion": "1.12"},
            "info": {**usual, **info},
            "networks": [{"Name": "bridge"}],
        }

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(answers[self.path.partition("?")[0].rsplit("/", 1)[-1]]).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def address_string(self) -> str:
                return "unix"

            def log_message(self, *_: object) -> None:
                """Quiet."""

        super().__init__(str(path), Handler)
        self.address = f"unix://{path}"

    def __enter__(self) -> "FakeEngine":
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


def test_an_engine_that_is_too_old(tmp_path: Path) -> None:
    with FakeEngine(tmp_path / "s", {"ServerVersion": "19.03"}, api="1.40") as engine:
        words = problem(look_at(engine.address))
    assert "Docker 19.03 (API 1.40) is too old" in words
    assert "20.10" in words


def test_an_engine_for_windows_containers(tmp_path: Path) -> None:
    with FakeEngine(tmp_path / "s", {"OSType": "windows"}) as engine:
        assert "windows" in problem(look_at(engine.address))


def test_a_kernel_without_limits(tmp_path: Path) -> None:
    with FakeEngine(tmp_path / "s", {"MemoryLimit": False, "CpuCfsQuota": True, "PidsLimit": False}) as engine:
        report = look_at(engine.address)
    assert report.node
    assert any("cannot limit memory, the number of processes" in note for note in report.notes)


def test_the_nvidia_runtime_without_a_gpu(tmp_path: Path) -> None:
    with FakeEngine(tmp_path / "s", {"Runtimes": {"runc": {}, "nvidia": {}}}) as engine:
        report = look_at(engine.address)
    assert any("no GPU was found" in note for note in report.notes)


@pytest.mark.parametrize(
    "info",
    [
        {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=GPU-1"}, {"ID": "nvidia.com/gpu=0"}]},
        {"Runtimes": {"nvidia": {}}, "GenericResources": [{"NamedResourceSpec": {"Kind": "gpu", "Value": "GPU-1"}}]},
    ],
)
def test_gpus_that_another_machine_tells_of(tmp_path: Path, info: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulearn.executors.docker.address.Address.on_this_machine", False)
    with FakeEngine(tmp_path / "s", info) as engine:
        report = look_at(engine.address)
        none = look_at(engine.address, gpus=False)
    assert report.node
    assert [(d.id, d.outside_use) for d in report.node.devices] == [("GPU-1", "")]
    assert report.node.capacity[GPUS] == 1
    assert any("others use its GPUs" in note and "not known" in note for note in report.notes)
    assert none.node
    assert none.node.devices == ()


def test_a_container_that_asks_for_gpus_may_do_nothing_else() -> None:
    options = query_options("cuda:12")
    [request] = options["device_requests"]
    assert request == {
        "Driver": "nvidia", "Count": -1, "DeviceIDs": [], "Capabilities": [["gpu", "utility"]], "Options": {},
    }  # fmt: skip
    assert options["entrypoint"] == ["nvidia-smi"]
    assert (options["cap_drop"], options["user"], options["network_disabled"]) == (["ALL"], "65534:65534", True)
    assert LABEL in options["labels"]


def test_what_nvidia_smi_answers() -> None:
    text = "GPU-8f, NVIDIA A100-SXM4-40GB, 40960\nGPU-9a, Tesla T4, [N/A]\nNo devices were found\n"
    found = read_answer(text)
    assert [(d.id, d.model, d.memory) for d in found] == [
        ("GPU-8f", "NVIDIA A100-SXM4-40GB", 40960 << 20),
        ("GPU-9a", "Tesla T4", 0),
    ]


def test_the_label_names_the_type_of_gpus(tmp_path: Path) -> None:
    node = replace(Node(NodeName("a")), devices=read_answer("GPU-8f, NVIDIA A100-SXM4-40GB, 40960"))
    assert [d.model for d in node.labelled((("gpu-type", "A100"),)).devices] == ["A100"]
    assert [d.model for d in node.labelled((("room", "1"),)).devices] == ["NVIDIA A100-SXM4-40GB"]
