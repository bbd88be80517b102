"""What of its server a job may mount: the rules as tables, and each way around them tried on a real engine."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedulearn.core.domain.errors import ExecutorError, InvalidSpec, NotFound
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.executors.docker import mounts
from schedulearn.executors.docker.calls import Refused, refusal
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.mounts import Bind, HostPaths, check_roots, checked_mounts, concealed, parse_mount
from schedulearn.executors.docker.names import LOOK
from schedulearn.executors.docker.rounds import Rounds
from schedulearn.executors.docker.rules import Rules
from support.base_image import IMAGE
from support.docker_bench import DockerBench

ALLOWED = ("/data", "/data/scratch:rw", "/shared:rw")


# --- the rules


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("/data", Bind("/data", "/data")),
        ("/data:ro", Bind("/data", "/data")),
        ("/data:/inside", Bind("/data", "/inside")),
        ("/data:/inside:rw", Bind("/data", "/inside", read_only=False)),
        ("/data:rw", Bind("/data", "/data", read_only=False)),
    ],
)
def test_mounts_are_understood(text: str, bind: Bind) -> None:
    assert parse_mount(text) == bind


@pytest.mark.parametrize(
    "mount",
    [
        "/data",
        "/data/set",
        "/data/set/deep:/x",
        "/data/scratch",
        "/data/scratch:rw",
        "/data/scratch:/x:rw",
        "/shared:/etc/pki/ours",
    ],
)
def test_mounts_that_are_allowed(mount: str) -> None:
    assert checked_mounts([mount], ALLOWED) == [parse_mount(mount)]


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        # where it leads
        ("/etc", "not below a path"),
        ("/dataset", "not below a path"),
        ("/", "not below a path"),
        ("/data/../etc", "absolute paths"),
        ("/data/.", "absolute paths"),
        ("/data/", "absolute paths"),
        ("/data//set", "absolute paths"),
        ("//data", "absolute paths"),
        ("data", "absolute paths"),
        ("", "absolute paths"),
        ("/data\n", "absolute paths"),
        ("/data:/x:/y", "absolute paths"),
        ("/data:/x/../work", "absolute paths"),
        # what it may be used for
        ("/data:/x:rw", "may only be read"),
        ("/data/set:/x:rw", "may only be read"),
        # what jobs can change, also by another rule
        ("/shared/x", "only /shared itself"),
        ("/shared/x:/y:rw", "only /shared itself"),
        ("/data/scratch/x", "only /data/scratch itself"),
        # what it would hide
        ("/data:/work/in", "hide"),
        ("/data:/work", "hide"),
        ("/data:/", "hide"),
        ("/data:/checkpoint", "hide"),
        ("/data:/schedulearn/inside", "hide"),
        ("/data:/proc/self", "hide"),
        ("/data:/sys", "hide"),
        ("/data:/dev/shm", "hide"),
        ("/data:/etc", "hide"),
        ("/data:/etc/hosts", "hide"),
    ],
)
def test_mounts_that_are_refused(mount: str, why: str) -> None:
    with pytest.raises(ExecutorError, match=why):
        checked_mounts([mount], ALLOWED)


@pytest.mark.parametrize(
    ("mounts", "why"),
    [
        (["/data:/x", "/data/set:/x"], "same place"),
        (["/shared:/x:rw", "/data:/x/y"], "inside of another"),
        (["/data:/x/y", "/shared:/x:rw"], "inside of another"),
        ([f"/data/{number}" for number in range(33)], "too many"),
        (["/data" + "/a" * 100], "too deep"),
    ],
)
def test_mounts_that_are_in_each_others_way(mounts: list[str], why: str) -> None:
    with pytest.raises(ExecutorError, match=why):
        checked_mounts(mounts, ALLOWED)


def test_why_a_job_did_not_start_tells_nobody_its_paths() -> None:
    """Everybody reads that. Its user knows which mount has which number."""
    mounts = ["/data/set.v1:/in", "/data/ann/hush/x:/y:rw", "/a"]

    def told(words: str) -> str:
        return concealed(words, mounts)

    assert told("the mount '/data/ann/hush/x:/y:rw' may only be read") == "mount 2 may only be read"
    assert told("the mount '/data/set.v1' is the engine's") == "mount 1 is the engine's"
    assert told("there is no /data/ann/hush/x on this server") == "there is no mount 2 on this server"
    assert told("/data/ann/hush is a link") == "a folder on the path of mount 2 is a link"
    assert told("bind source path does not exist: /data/set.v1.") == "bind source path does not exist: mount 1."
    assert told("and/a b/a /a") == "and/a b/a mount 3"
    assert concealed("it has /words", ["", ":", "/"]) == "it has /words"


@pytest.mark.parametrize("mount", ["/var/run/docker.sock", "/var", "/var/lib/docker/x", "/proc/1/root", "/etc/shadow"])
def test_what_belongs_to_the_server_is_never_mounted(mount: str) -> None:
    """Whatever was allowed: by an earlier version, say, that knew no better."""
    with pytest.raises(ExecutorError, match="belongs to its server"):
        checked_mounts([f"{mount}:/x"], ("/",))


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("/a/b", ("/a/b", "/a:rw")),  # what can be replaced by a link
        ("/a/b", ("/a/b:rw", "/a:rw")),
        ("/a/b/c", ("/a/b", "/a:rw")),
        ("/a/b", ("/a", "/a/b/c/d:rw")),  # what holds something that jobs may write to
    ],
)
def test_rules_that_lie_in_each_other(source: str, allowed: tuple[str, ...]) -> None:
    with pytest.raises(ExecutorError, match="where jobs may write"):
        checked_mounts([f"{source}:/x"], allowed)


PARTS = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
ROOTS = st.lists(st.tuples(PATHS, st.booleans()), min_size=1, max_size=4)


@given(ROOTS, PATHS, st.booleans())
@example([("/a", False), ("/a/b", True)], "/a/b/c", False)
def test_no_job_can_change_the_way_to_what_is_mounted(
    roots: list[tuple[str, bool]], source: str, read_only: bool
) -> None:
    allowed = [f"{path}:rw" if writable else path for path, writable in roots]
    try:
        checked_mounts([f"{source}:/x:{'ro' if read_only else 'rw'}"], allowed)
    except ExecutorError:
        return
    assert any(source == path or source.startswith(f"{path}/") for path, _ in roots)
    assert not any(source.startswith(f"{path}/") for path, writable in roots if writable)
    assert read_only or (source, True) in roots


# --- what an administrator can allow


@pytest.mark.parametrize(
    "allowed",
    [
        ["/"],
        ["/proc"],
        ["/sys/fs"],
        ["/dev/shm:rw"],
        ["/run"],
        ["/var/run/user"],
        ["/var"],
        ["/var/lib"],
        ["/var/lib/docker/volumes"],
        ["/etc"],
        ["/srv/lab"],  # the service's own
        ["/srv/lab/jobs"],
        ["/srv:rw"],
        ["/srv/checkpoints/x"],
        ["data"],
        ["/data/"],
        ["/data/.."],
        ["//data"],
        ["/data:ro"],
        ["/data:/x"],
        ["/data:rw", "/data/sets"],
        ["/data/scratch:rw", "/data:rw"],
    ],
)
def test_what_cannot_be_allowed(allowed: list[str]) -> None:
    with pytest.raises(InvalidSpec, match="--allow-mounts"):
        check_roots(allowed, [Path("/srv/lab"), Path("/srv/checkpoints")])


def test_what_can_be_allowed(tmp_path: Path) -> None:
    check_roots(["/data", "/data/scratch:rw", "/scratch:rw", "/var/data", "/srv/data"], [Path("/srv/lab")])


def test_a_root_that_is_a_link_to_what_cannot_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(InvalidSpec, match="/etc"):
        check_roots([str(tmp_path / "link")], [])
    (tmp_path / "lab").mkdir()
    (tmp_path / "other").symlink_to(tmp_path / "lab")
    with pytest.raises(InvalidSpec, match="own files"):
        check_roots([str(tmp_path / "lab")], [tmp_path / "other"])


# --- looking at what is there


class Seen:
    """Containers of an engine that answers each look as it is told to, and then that all are folders."""

    instance = "x"
    calls = SimpleNamespace(socket="/nowhere/docker.sock")

    def __init__(self, *refusals: int) -> None:
        self.refusals = list(refusals)
        self.there = self.most = 0

    def create(self, _: object) -> str:
        self.there += 1
        time.sleep(0)  # the others have their chance
        self.most = max(self.most, self.there)
        return "looker"

    def remove(self, container: str) -> None:
        self.there -= container == "looker"

    def look_at(self, _: str, path: str, strict: bool) -> Any:
        if self.refusals:
            raise refusal(self.refusals.pop(0), f"the engine does not say what {path} is")
        return {"mode": 1 << 31}


def paths_of(seen: Seen) -> HostPaths:
    return HostPaths(cast(Any, seen), cast(Any, SimpleNamespace(data_root=lambda: "/nowhere")))


def look(seen: Seen) -> None:
    paths_of(seen).check([Bind("/data/set", "/x")], IMAGE, "1.1.0")


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_PAUSE", 0.0)


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("status", [500, 409])
def test_who_could_not_look_looks_again(status: int) -> None:
    seen = Seen(status, status)
    look(seen)
    assert seen.there == 0


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize(("refusals", "left"), [([500] * 100, 94), ([400], 0)])
def test_what_could_not_be_seen_is_not_called_missing(refusals: list[int], left: int) -> None:
    seen = Seen(*refusals)
    with pytest.raises(ExecutorError, match="cannot be found on this server: the engine does not say"):
        look(seen)
    assert (len(seen.refusals), seen.there) == (left, 0)


def test_one_looks_at_a_time() -> None:
    """Each has the server's folders mounted: several at once have one another's, until there is no room."""
    seen = Seen()
    host_paths = paths_of(seen)
    with ThreadPoolExecutor(8) as many:
        list(many.map(lambda who: host_paths.check([Bind("/data/set", "/x")], IMAGE, f"{who}.1.0"), range(200)))
    assert (seen.most, seen.there) == (1, 0)


@pytest.mark.parametrize(("status", "strict"), [(500, True), (404, True), (500, False)])
def test_only_404_says_that_a_path_is_not_there(status: int, strict: bool) -> None:
    answer = SimpleNamespace(headers={}, status_code=status, reason="no room")
    api = SimpleNamespace(base_url="", api_version="", timeout=1, head=lambda *_, **__: answer)
    containers = Containers(cast(Any, SimpleNamespace(api=lambda: nullcontext(api))), "x")
    if status == 500 and strict:
        with pytest.raises(Refused, match="does not say what /data is: no room"):
            containers.look_at("c", "/data", strict)
    else:
        assert containers.look_at("c", "/data", strict) is None


# --- on a real engine


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder of the server in which everybody may write, with a secret beside it."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "token").write_text("top secret")
    for name in ("sets", "scratch"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    (tmp_path / "sets" / "one").mkdir()
    (tmp_path / "sets" / "one" / "x").write_text("data")
    return tmp_path


def mounting(bench: DockerBench, command: str, *mounts: str, rules: Rules, **more: Any) -> tuple[Outcome, bytes]:
    launch = bench.launch(command, spec={"mounts": mounts}, **more)
    outcome = bench.run(launch, rules=rules)
    return outcome, bench.output(launch)


def refused(outcome: Outcome) -> str:
    assert outcome.ending is Ending.NOT_STARTED, outcome
    return outcome.detail


def test_a_link_that_a_job_planted_is_not_mounted(containers: DockerBench, host: Path) -> None:
    """The way out of a container: one job makes a link to the server's root, the next one mounts the link."""
    rules = Rules(mounts=(f"{host}/scratch:rw",))
    plant = "ln -s / /out/root && ln -s ../secret /out/near && mkdir /out/plain && ls /out"
    outcome, said = mounting(containers, plant, f"{host}/scratch:/out:rw", rules=rules)
    assert outcome.ok, said
    assert (host / "scratch" / "root").readlink() == Path("/")  # it is there, on the server
    for job, name in enumerate(("root", "near", "near/token", "root/etc", "plain"), start=2):
        for how in ("", ":rw"):
            outcome, _ = mounting(
                containers,
                "ls -la /in; cat /in/*",
                f"{host}/scratch/{name}:/in{how}",
                rules=rules,
                job=10 * job + len(how),
            )
            assert "only" in refused(outcome)
    # Inside of a container the link leads to the container's own files.
    outcome, said = mounting(
        containers,
        "ls /in/root/work && ls /in/root/schedulearn; cat /in/near/token",
        f"{host}/scratch:/in",
        rules=rules,
        job=99,
    )
    assert b"top secret" not in said
    assert b"token" in said.splitlines()
    assert containers.containers() == []


def test_links_below_what_may_only_be_read_are_refused(containers: DockerBench, host: Path) -> None:
    (host / "sets" / "link").symlink_to(host / "secret")
    (host / "sets" / "far").symlink_to("/")
    (host / "sets" / "inner").symlink_to("one")
    rules = Rules(mounts=(f"{host}/sets",))
    cases = {"link": "link", "link/token": "link", "far/etc": "far", "inner": "inner", "inner/x": "inner"}
    for job, (name, culprit) in enumerate(cases.items(), start=1):
        outcome, _ = mounting(containers, "cat /in/token /in", f"{host}/sets/{name}:/in", rules=rules, job=job)
        which = "mount 1" if culprit == name else "a folder on the path of mount 1"
        assert f"{which} is a link" in refused(outcome)
    assert containers.containers() == []


def test_a_root_that_is_a_link_on_the_server_is_refused(containers: DockerBench, host: Path) -> None:
    (host / "alias").symlink_to(host / "sets")
    (host / "deep").mkdir()
    (host / "deep" / "alias").symlink_to(host)
    for job, root in enumerate((f"{host}/alias", f"{host}/deep/alias/sets"), start=1):
        outcome, _ = mounting(containers, "ls /in", f"{root}:/in", rules=Rules(mounts=(root,)), job=job)
        assert "is a link on this server" in refused(outcome)


@pytest.mark.parametrize(
    ("setup", "place"),
    [
        ("mkdir -p /work/in && ln -s /work/in /elsewhere", "/elsewhere"),
        ("mkdir -p /checkpoint/in && ln -s / /elsewhere", "/elsewhere/checkpoint/in"),
        ("ln -s /work /elsewhere", "/elsewhere"),
    ],
)
def test_links_of_an_image_lead_no_mount_to_where_files_are_fetched_from(
    containers: DockerBench, host: Path, setup: str, place: str
) -> None:
    """The engine follows them, and it is root who fills and fetches these folders: what nobody else may read, too."""
    closed = host / "scratch" / "closed"
    closed.write_text("top secret")
    closed.chmod(0o600)
    launch = containers.launch("true", spec={"mounts": (f"{host}/scratch:{place}:rw",), "setup": (setup,)})
    outcome = containers.run(launch, rules=Rules(mounts=(f"{host}/scratch:rw",)))
    job = containers.paths(launch).job
    assert not [path for path in job.folder.rglob("closed") if path.read_text() == "top secret"]
    assert "/elsewhere is a link" in refused(outcome)
    assert containers.containers() == []


def test_links_that_a_job_makes_lead_nobody_to_what_it_cannot_read(containers: DockerBench, host: Path) -> None:
    """The engine looks up where mounts and files are with each call, as root; a job may have moved all around them."""
    closed = host / "sets" / "one" / "closed"
    closed.write_text("top secret")
    closed.chmod(0o600)
    move = "mkdir -p b/in && mv /opt/a /opt/c && ln -s /work/b /opt/a && ln -s /opt/c/in l"
    launch = containers.launch(
        f"{move} && echo up; until [ -e end ]; do sleep 0.05; done; cat l/one/x; cat l/one/closed",
        spec={"mounts": (f"{host}/sets:/opt/a/in",), "setup": ("mkdir -p /opt && chmod 777 /opt",)},
    )
    executor = containers.executor(rules=Rules(mounts=(f"{host}/sets",)))
    executor.start(launch)
    # Not by a look at its files: for each the engine makes the places of mounts anew, perhaps while the job moves them.
    containers.until(lambda: b"up\n" in containers.output(launch), "it has moved all")
    for path in ("", "b", "b/in/one/closed", "b/in/one"):
        files = executor.exec.files(launch.worker, path)
        assert files is not None
        assert b"top secret" not in b"".join(files)
    for path in ("l/one/closed", "l/one/x", "l/one"):
        with pytest.raises(NotFound, match="links are not followed"):
            executor.exec.files(launch.worker, path)
    containers.touch(launch, "end")
    assert containers.ended(launch).exit_code == 1
    said = containers.output(launch)
    assert b"\ndata" in said  # it could read this, and not the other
    assert b"Permission denied" in said
    job = containers.paths(launch).job
    assert (job.run / "b" / "in" / "one" / "x").read_text() == "data"  # what it can read may be fetched
    assert not list(job.folder.rglob("closed"))


def test_links_of_an_image_do_not_deceive_who_looks(containers: DockerBench, host: Path) -> None:
    """All that is looked at would lie in one place, and a plain folder in front of the link of the same name."""
    (host / "sets" / "one" / "one").symlink_to(host / "secret")
    links = " && ".join(f"ln -s /here /schedulearn-look/{number}" for number in range(20))
    launch = containers.launch(
        "cat /in/token",
        spec={"mounts": (f"{host}/sets/one/one:/in",), "setup": (f"mkdir /here /schedulearn-look && {links}",)},
    )
    outcome = containers.run(launch, rules=Rules(mounts=(f"{host}/sets",)))
    assert b"top secret" not in containers.output(launch)
    assert "mount 1 is a link" in refused(outcome)


def test_what_is_no_file_and_no_folder_is_refused(
    containers: DockerBench, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Rules(mounts=(f"{host}/sets",))
    os.mkfifo(host / "sets" / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(host / "sets")  # a socket's path must be short
        listening.bind("sock")
        for job, name in enumerate(("pipe", "sock"), start=1):
            outcome, _ = mounting(containers, "true", f"{host}/sets/{name}:/in", rules=rules, job=job)
            assert "neither a folder nor a plain file" in refused(outcome)
    outcome, _ = mounting(containers, "true", f"{host}/sets/none:/in", rules=rules, job=5)
    assert "no mount 1 on this server" in refused(outcome)
    outcome, _ = mounting(containers, "true", f"{host}/sets/none/deeper:/in", rules=rules, job=6)
    assert "cannot be found on this server" in refused(outcome)


def test_mounts_that_work(containers: DockerBench, host: Path) -> None:
    rules = Rules(mounts=(f"{host}/sets", f"{host}/scratch:rw"))
    mounts = (f"{host}/sets/one:/a", f"{host}/sets/one/x:/file", f"{host}/scratch:/b:rw", f"{host}/scratch:/c")
    command = "cat /a/x /file; touch /b/new; touch /c/not /a/not"
    outcome, said = mounting(containers, command, *mounts, rules=rules)
    assert outcome.exit_code == 1
    assert said.startswith(b"datadata")
    assert said.count(b"Read-only") == 2
    assert [p.name for p in (host / "scratch").iterdir()] == ["new"]


def test_mounts_of_an_engines_own_data_are_refused(containers: DockerBench) -> None:
    folder = str(containers.daemon.folder)  # its data and its socket are here
    for job, path in enumerate((f"{folder}/data", f"{folder}/data/overlay2", folder, f"{folder}/docker.sock"), start=1):
        outcome, _ = mounting(containers, "ls /in", f"{path}:/in", rules=Rules(mounts=(folder,)), job=job)
        assert "belongs to its engine" in refused(outcome)


@pytest.fixture
def mounted(host: Path) -> Iterator[Path]:
    """Another disk of the server, mounted below a folder that jobs may mount."""
    place = host / "sets" / "one"
    words = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", str(place)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets us mount nothing")
    (place / "other").write_text("of another disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_what_is_mounted_below_is_not_part_of_it(containers: DockerBench, host: Path, mounted: Path) -> None:
    """Nor how it is mounted. By itself it can be."""
    rules = Rules(mounts=(f"{host}/sets",))
    outcome, said = mounting(containers, "ls /in /in/one", f"{host}/sets:/in", rules=rules)
    assert outcome.ok
    assert said.split() == [b"/in:", b"one", b"/in/one:", b"x"]
    outcome, said = mounting(containers, "cat /in/other", f"{mounted}:/in", rules=rules, job=2)
    assert said == b"of another disk"


def test_what_the_engine_is_asked_for() -> None:
    asked = Bind("/data", "/in").option()
    assert asked["ReadOnly"] is True
    assert asked["BindOptions"] == {"Propagation": "rprivate", "NonRecursive": True}


def test_what_a_killed_service_looked_through_is_removed(
    containers: DockerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rounds, "EVERY", 0.1)
    containers.executor().close()
    with containers.daemon.client() as client:
        name = containers.name(containers.launch("true"))
        labels = {"schedulearn.instance": name.split("-")[1], LOOK: "1.1.0"}
        client.api.create_container(IMAGE, name=f"{name}-look", labels=labels)
    assert len(containers.containers()) == 1
    containers.executor()
    containers.until(lambda: not containers.containers(), "it is removed")
