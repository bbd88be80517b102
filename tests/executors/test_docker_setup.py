"""Setup lines and requirements files become images that are made once, found again by content, and shared."""

import base64
import hashlib
import io
import os
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.spec import WorkerResources
from schedulearn.executors.common.base import THREADS
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.docker import layers
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.layers import REPOSITORY, Setup, means_of, setup_of
from schedulearn.executors.docker.names import LOOK, SETUP, worker_of
from schedulearn.executors.docker.rounds import Rounds
from schedulearn.executors.docker.rules import Rules
from support.base_image import IMAGE
from support.bench import Workbench
from support.docker import Daemon
from support.docker_bench import DockerBench

PREPARING, WAITING = b"preparing the image", b"waiting for the image"


def wheel(version: str) -> bytes:
    """A wheel of a package `tiny`, made by hand: a zip file with a list of what is in it."""
    info = f"tiny-{version}.dist-info"
    files = {
        "tiny.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},{_hash(text)},{len(text)}\n" for name, text in files.items()) + f"{info}/RECORD,,\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(name), text)  # with a date that is always the same
    return made.getvalue()


def _hash(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    return f"sha256={digest}"


@pytest.fixture
def project(tmp_path: Path) -> Any:
    """Makes the snapshot of a project with a local folder of wheels."""

    def snapshot(version: str = "1.0", **more: bytes) -> Path:
        requirements = f"--no-index\n--find-links wheels\ntiny=={version}\n".encode()
        files = {"requirements.txt": requirements, f"wheels/tiny-{version}-py3-none-any.whl": wheel(version), **more}
        path = tmp_path / f"snapshot-{version}-{len(more)}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return path

    return snapshot


@pytest.fixture(autouse=True)
def no_prepared_images(containers: DockerBench) -> Iterator[None]:
    """Neither of this test nor of those before it on the same engine."""
    remove_images(containers.daemon)
    yield
    remove_images(containers.daemon)


def remove_images(daemon: Daemon) -> None:
    with daemon.client() as client:
        for tag in images(daemon):
            client.api.remove_image(tag, force=True)


def images(daemon: Daemon) -> list[str]:
    with daemon.client() as client:
        return [tag for image in client.api.images(REPOSITORY) for tag in image["RepoTags"]]


def test_a_requirements_file(containers: DockerBench, project: Any) -> None:
    command = ("python3", "-c", "import tiny; print('has', tiny.VERSION)")
    first = containers.launch(command, snapshot=project(), spec={"setup": ("requirements.txt",)})
    assert containers.run(first).ok, containers.output(first)
    said = containers.output(first)
    assert PREPARING in said
    assert b"Successfully installed tiny-1.0" in said  # the user sees what happens
    assert said.endswith(b"has 1.0\n")
    again = containers.launch(command, job=2, snapshot=project(), spec={"setup": ("requirements.txt",)})
    assert containers.run(again).ok
    assert containers.output(again) == b"has 1.0\n"
    assert len(images(containers.daemon)) == 1
    other = containers.launch(command, job=3, snapshot=project("2.0"), spec={"setup": ("requirements.txt",)})
    assert containers.run(other).ok
    assert containers.output(other).endswith(b"has 2.0\n")
    assert len(images(containers.daemon)) == 2
    assert containers.containers() == []


def test_setup_lines_run_as_root_of_the_image_and_the_job_does_not(containers: DockerBench) -> None:
    setup = ("echo made by $(id -u) > /etc/mark", "chmod 644 /etc/mark", "mkdir -p /opt/x && ln -s /etc/mark /opt/x/y")
    launch = containers.launch("cat /opt/x/y; id -u; ls -d /schedulearn-setup", spec={"setup": setup})
    assert containers.run(launch).exit_code != 0  # the last command: nothing is left of the preparation
    lines = containers.output(launch).splitlines()
    assert lines[-3:-1] == [b"made by 0", b"65534"]


def test_a_line_that_fails(containers: DockerBench) -> None:
    setup = ("echo first", "echo to stderr >&2; exit 3", "echo never")
    launch = containers.launch("true", spec={"setup": setup})
    outcome = containers.run(launch)
    assert outcome.ending is Ending.NOT_STARTED
    assert "setup failed (exit code 3)" in outcome.detail
    assert b"first" in containers.output(launch)
    assert b"to stderr" in containers.output(launch)
    assert b"never" not in containers.output(launch).replace(b"echo never", b"")
    assert images(containers.daemon) == []
    assert containers.containers() == []


def test_two_jobs_make_one_image(containers: DockerBench) -> None:
    executor = containers.executor()
    waits = "for i in $(seq 1200); do [ -e /tmp/go ] && break; sleep 0.05; done"  # not for ever: nobody may say so
    setup = {"setup": (waits, "date +%N > /etc/mark")}
    launches = [containers.launch("cat /etc/mark", job=job, spec=setup) for job in (1, 2, 3)]
    for launch in launches:
        executor.start(launch)
    containers.until(lambda: sum(WAITING in containers.output(launch) for launch in launches) == 2, "two wait")
    with containers.daemon.client() as client:
        [preparing] = containers.until(lambda: client.api.containers(filters={"label": SETUP}), "one prepares it")
        client.api.exec_start(client.api.exec_create(preparing["Id"], ["touch", "/tmp/go"])["Id"])
    for launch in launches:
        assert containers.ended(launch).ok
    marks = {containers.output(launch).splitlines()[-1] for launch in launches}
    assert len(marks) == 1
    told = b"".join(containers.output(launch) for launch in launches)
    assert told.count(PREPARING) == 1
    assert told.count(WAITING) == 2


def test_a_stop_while_the_image_is_prepared(containers: DockerBench) -> None:
    launch = containers.launch("true", spec={"setup": ("echo busy; exec sleep 1000",)})
    executor = containers.executor()
    executor.start(launch)
    containers.until(lambda: b"busy\n" in containers.output(launch))
    executor.stop(launch.worker, launch.node, 30)
    outcome = containers.ended(launch)
    assert outcome.ending is Ending.LOST
    assert "stopped before it was started" in outcome.detail
    assert containers.containers() == []


def test_the_lines_themselves_are_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others read the output, but not the lines."""
    monkeypatch.setattr(layers, "FOLDER", str(tmp_path))
    script = Setup(("true hush", "echo said"), ()).script
    printed = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed == "+ setup, line 1 of 2\n+ setup, line 2 of 2\nsaid\n"


def test_a_preparation_that_was_interrupted_begins_anew(
    containers: DockerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed service leaves a container that prepares an image; the next life does not trust it."""
    setup = Setup(("echo ok > /etc/mark",), ())
    with containers.daemon.client() as client:
        key = setup.key(client.api.inspect_image("schedulearn-test")["Id"])
        name = f"schedulearn-{instance_of(containers.root)}-setup-{key}"
        client.api.create_container("schedulearn-test", name=name, entrypoint=["false"])
    launch = containers.launch("cat /etc/mark", spec={"setup": setup.lines})
    assert containers.run(launch).ok
    assert containers.output(launch).endswith(b"ok\n")


def test_an_image_keeps_its_own_settings(containers: DockerBench) -> None:
    launch = containers.launch("true", spec={"setup": ("true",)})
    assert containers.run(launch).ok
    with containers.daemon.client() as client:
        (tag,) = images(containers.daemon)
        before, after = (client.api.inspect_image(name)["Config"] for name in ("schedulearn-test", tag))
    assert after["Cmd"] == before["Cmd"]
    assert after["Env"] == before["Env"]
    assert not after["Entrypoint"]
    assert after["User"] in ("", "root")


# --- which files go in, and what makes a difference


def test_files_that_lines_name_go_in(tmp_path: Path) -> None:
    (tmp_path / "wheels" / "deep").mkdir(parents=True)
    (tmp_path / "wheels" / "a.whl").write_text("a")
    (tmp_path / "wheels" / "deep" / "b.whl").write_text("b")
    (tmp_path / "requirements.txt").write_text("--find-links=wheels\n-r more.txt\ntiny\n")
    (tmp_path / "more.txt").write_text("other\n")
    (tmp_path / "train.py").write_text("")
    (tmp_path / "install.sh").write_text("")
    (tmp_path / "link").symlink_to("/etc")
    found = setup_of(("requirements.txt", "sh ./install.sh", "cat link/passwd ../x /etc/passwd"), tmp_path)
    names = [path for path, _, _ in found.files]
    assert names == ["install.sh", "more.txt", "requirements.txt", "wheels/a.whl", "wheels/deep/b.whl"]


TEXT = st.text(max_size=5)
SETUPS = st.builds(
    Setup,
    st.lists(TEXT, max_size=2).map(tuple),
    st.lists(st.tuples(TEXT, st.binary(max_size=5), st.sampled_from([0o644, 0o755])), max_size=2).map(tuple),
)


@given(SETUPS, SETUPS, TEXT, TEXT)
def test_the_key_tells_what_differs(one: Setup, other: Setup, image: str, second: str) -> None:
    assert (one.key(image) == other.key(second)) == ((one, image) == (other, second))


def test_a_preparation_is_not_taken_for_an_orphan(containers: DockerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rounds, "EVERY", 0.1)
    launch = containers.launch("true", spec={"setup": ("sleep 2",)})
    assert containers.run(launch).ok


def test_files_named_in_setup_have_a_limit(tmp_path: Path) -> None:
    """They are read into memory, and a file of holes costs a job nothing."""
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ExecutorError, match=r"setup names more than 256 MB"):
        setup_of(("ls huge",), tmp_path)


def test_nothing_but_files_is_read_for_setup(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("f")
    os.mkfifo(tmp_path / "d" / "pipe")
    (tmp_path / "d" / "link").symlink_to("/etc/passwd")
    (tmp_path / "away").symlink_to("/etc")
    found = setup_of(("ls d d/pipe d/link away/passwd", "x" * 5000), tmp_path)
    assert [path for path, _, _ in found.files] == ["d/f"]


def test_labels_of_an_image_make_no_worker_of_its_preparation(containers: DockerBench) -> None:
    """It inherits them. Another's job could not be forgotten while it runs, and its own network would be removed."""
    theirs = containers.launch("true", job=7)
    executor = containers.executor()
    executor.start(theirs)
    assert containers.ended(theirs).ok
    with containers.daemon.client() as client:
        made = client.api.create_container(IMAGE, "true")["Id"]
        client.api.commit(made, "labelled", "latest", changes=["LABEL schedulearn.worker=7.1.0 schedulearn.look=7.1.0"])
        client.api.remove_container(made)
    try:
        launch = containers.launch("true", spec={"image": "labelled", "setup": ("exec sleep 1000",)})
        executor.start(launch)
        with containers.daemon.client() as client:
            [preparing] = containers.until(lambda: client.api.containers(filters={"label": SETUP}), "it runs")
        assert worker_of(preparing["Labels"]) is None
        assert preparing["Labels"][LOOK] == ""
        executor.forget(theirs.worker.job)
        containers.until(lambda: not containers.paths(theirs).job.folder.exists(), "the other job is forgotten")
        executor.stop(launch.worker, launch.node, 0)
        containers.ended(launch)
    finally:
        with containers.daemon.client() as client:
            client.api.remove_image("labelled", force=True)


# --- what it may use


def test_what_holds_for_a_container_that_prepares_an_image(containers: DockerBench) -> None:
    spec = {"setup": ("exec sleep 1000",), "resources": WorkerResources(memory=256 << 20, cpus_max=1.5)}
    launch = containers.launch("true", spec=spec)
    executor = containers.executor(rules=Rules(setup_cpus=0.5))
    executor.start(launch)
    with containers.daemon.client() as client:
        [preparing] = containers.until(lambda: client.api.containers(filters={"label": SETUP}), "it runs")
        told = client.api.inspect_container(preparing["Id"])
    executor.stop(launch.worker, launch.node, 0)
    containers.ended(launch)
    host = told["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (256 << 20, 256 << 20, 4096)
    assert (host["CpuQuota"], host["CpuPeriod"]) == (150_000, 100_000)
    assert host["CapDrop"] == ["ALL"]
    assert "SYS_ADMIN" not in host["CapAdd"]
    assert "NET_RAW" not in host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Privileged"] is False
    assert told["Mounts"] == []
    assert list(told["NetworkSettings"]["Networks"]) == [host["NetworkMode"]]
    assert "net-setup-" in host["NetworkMode"]  # in nobody's reach
    containers.until(lambda: not containers.networks(), "its network is removed")


@pytest.mark.parametrize(
    ("asked", "machine", "means"),
    [
        (WorkerResources(), (16, 64 << 30), (2.0, 8 << 30)),
        (WorkerResources(cpus_max=4.0, memory=1 << 30), (16, 64 << 30), (4.0, 1 << 30)),
        (WorkerResources(cpus_max=99.0), (16, 8 << 30), (16, 4 << 30)),
    ],
)
def test_it_has_as_much_as_its_job_and_never_the_whole_machine(
    tmp_path: Path, asked: WorkerResources, machine: tuple[float, int], means: tuple[float, int]
) -> None:
    launch = Workbench(tmp_path).launch("true", spec={"resources": asked})
    found = means_of(launch, Rules(), *machine)
    assert (found.cpus, found.memory) == means


def test_setup_that_never_ends(containers: DockerBench) -> None:
    launch = containers.launch("true", spec={"setup": ("while true; do :; done",)})
    outcome = containers.run(launch, rules=Rules(setup_seconds=1.0))
    assert outcome.ending is Ending.NOT_STARTED
    assert "setup was ended: it took longer than 1 s" in outcome.detail
    assert images(containers.daemon) == []
    assert containers.containers() == []


def test_setup_that_takes_all_memory(containers: DockerBench) -> None:
    hog = "python3 -c 'held = [chr(120) * (1 << 20) for _ in range(4000)]'"
    spec = {"setup": (hog,), "resources": WorkerResources(memory=64 << 20)}
    outcome = containers.run(containers.launch("true", spec=spec))
    assert outcome.ending is Ending.NOT_STARTED
    assert "setup failed" in outcome.detail
    assert "memory" in outcome.detail or "exit code 137" in outcome.detail  # the engine's word of it may come late
    assert images(containers.daemon) == []


def test_setup_that_fills_the_disk(containers: DockerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_COUNT", 0.1)
    fill = "while true; do head -c 1000000 /dev/zero >> /tmp/large; sleep 0.02; done"
    outcome = containers.run(containers.launch("true", spec={"setup": (fill,)}), rules=Rules(setup_disk=20_000_000))
    assert outcome.ending is Ending.NOT_STARTED
    assert "setup was ended: it wrote more than 20 MB" in outcome.detail
    assert images(containers.daemon) == []


def test_half_an_image_is_never_kept(containers: DockerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine hangs up while the lines run: their container has not failed, but is not done either."""
    hung_up = threading.Event()
    real = Containers.output

    def cut(self: Containers, container: str, last: int | None, follow: bool = False) -> Any:
        if follow and not hung_up.is_set():
            hung_up.set()
            return []  # it ended before the first word
        return real(self, container, last, follow)

    monkeypatch.setattr(Containers, "output", cut)
    launch = containers.launch("cat /etc/mark", spec={"setup": ("sleep 2", "echo whole > /etc/mark")})
    assert containers.run(launch).ok, containers.output(launch)
    assert hung_up.is_set()
    assert containers.output(launch).endswith(b"whole\n")


def test_others_start_while_many_prepare(containers: DockerBench) -> None:
    """However many setups take for ever, they keep nobody from starting or stopping."""
    executor = containers.executor()
    setup = {"setup": ("exec sleep 1000",)}
    waiting = [containers.launch("true", job=job, spec=setup) for job in range(10, 10 + THREADS + 2)]
    for launch in waiting:
        executor.start(launch)
    containers.until(
        lambda: sum(WAITING in containers.output(one) for one in waiting) == THREADS + 1, "all others wait"
    )
    assert_runs = containers.launch("echo fine")
    executor.start(assert_runs)
    assert containers.ended(assert_runs).ok
    for launch in waiting:
        executor.stop(launch.worker, launch.node, 0)
    for launch in waiting:
        assert containers.ended(launch).ending is Ending.LOST
    assert containers.containers() == []


def test_the_service_can_end_while_an_image_is_prepared(containers: DockerBench) -> None:
    launch = containers.launch("true", spec={"setup": ("echo busy; exec sleep 1000",)})
    executor = containers.executor()
    executor.start(launch)
    containers.until(lambda: b"busy\n" in containers.output(launch))
    executor.close()
    assert containers.recorder.events == []  # the job has not ended: the next life begins anew
    assert containers.containers() == []


def test_an_image_that_was_prepared_for_others_cannot_be_named(containers: DockerBench) -> None:
    """By a part of its id anybody could try; it may hold what others installed from their own files."""
    launch = containers.launch("true", spec={"setup": ("echo secret > /etc/mark",)})
    assert containers.run(launch).ok
    (tag,) = images(containers.daemon)
    with containers.daemon.client() as client:
        identity = client.api.inspect_image(tag)["Id"].removeprefix("sha256:")
    names = (tag, identity, identity[:12], f"sha256:{identity}")
    for job, name in enumerate(names, start=2):
        thief = containers.launch("cat /etc/mark", job=job, spec={"image": name})
        outcome = containers.run(thief)
        assert outcome.ending is Ending.NOT_STARTED
        assert "was prepared for other jobs" in outcome.detail
        assert b"secret" not in containers.output(thief)
