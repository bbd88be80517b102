"""A service of an ordinary user: what it says of itself, what its jobs can do, and what they cannot."""

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulearn.client import Client
from support.jobs import delete_all, ended, in_state, output, spec, submit
from support.ordinary import Ordinary, ordinary
from support.service import PATIENCE, Service, job_processes
from support.waiting import wait_until

GATED = "echo $$ > pid; until [ -e go ]; do sleep 0.02; done; echo went on; exit 7"


@pytest.fixture(scope="module")
def person() -> Iterator[Ordinary]:
    """Whose service it is."""
    around = Path(tempfile.mkdtemp(prefix="schedulearn-test-"))
    around.chmod(0o755)
    try:
        (around / "home").mkdir(mode=0o755)
        yield ordinary(around / "home")
    finally:
        shutil.rmtree(around)


@pytest.fixture(scope="module")
def service(person: Ordinary) -> Iterator[Service]:
    with Service(person.home / "data", through=person.through) as running:
        yield running


@pytest.fixture
def admin(service: Service) -> Iterator[Client]:
    if not service.running:
        service.start()
    with service.client() as made:
        yield made
        delete_all(made)


@pytest.fixture
def ann(admin: Client, service: Service) -> Iterator[Client]:
    with user(admin, service, "ann") as made:
        yield made


@pytest.fixture
def bob(admin: Client, service: Service) -> Iterator[Client]:
    with user(admin, service, "bob") as made:
        yield made


def user(admin: Client, service: Service, name: str) -> Client:
    if name not in {known["name"] for known in admin.users()}:
        admin.add_user(name)
    return service.client(admin.add_token("test", name)["token"])


def said(client: Client, command: str) -> str:
    """What a job writes; it must succeed."""
    job = submit(client, spec(command))
    assert ended(client, job)["state"] == "succeeded", output(client, job)
    return output(client, job).decode()


def worker_file(service: Service, job: int, name: str) -> Path:
    """Of its first worker."""
    return service.data / "jobs" / str(job) / "attempts" / "1" / "0" / name


def let_go(service: Service, job: int) -> None:
    (service.data / "jobs" / str(job) / "run" / "go").touch()


def pid_of(service: Service, job: int) -> int:
    file = service.data / "jobs" / str(job) / "run" / "pid"
    return int(wait_until(lambda: file.exists() and file.read_text(), PATIENCE, "the job has said its pid"))


# --- what is said


def warned(text: str) -> list[str]:
    """Sentences that are warnings."""
    said = " ".join(text.split())
    return [part.partition(". ")[0].removesuffix(".") for part in said.split("Warning: ")[1:]]


def one_domain(person: Ordinary) -> str:
    """That all jobs are, and what that means, in one sentence."""
    try:
        name = pwd.getpwuid(person.uid).pw_name
    except KeyError:
        name = str(person.uid)
    return (
        f"The service does not run as root, so the jobs of all its users run as one, {name}: each can read, change and"
        " stop what the others have"
    )


def test_it_starts_and_says_that_its_jobs_are_one_domain_of_trust(person: Ordinary, service: Service) -> None:
    assert Path(f"/proc/{service.pid}").stat().st_uid == person.uid
    wait_until(lambda: "schedulearn down" in service.output(), PATIENCE, "it has said all")
    assert warned(service.output().rpartition(" is up")[2]) == [one_domain(person)]


def test_who_adds_a_user_is_told_as_well(admin: Client, person: Ordinary, service: Service) -> None:
    added = service.cli("users", "add", "carol")
    assert added.returncode == 0
    assert warned(added.stderr) == [one_domain(person)]
    shown = json.loads(service.cli("users", "--json").stdout)
    assert {known["runs_as"] for known in shown} == {admin.whoami()["runs_as"]}


def test_nodes_say_what_is_in_force(admin: Client, service: Service) -> None:
    [node] = json.loads(service.cli("nodes", "--json").stdout)
    assert node["isolation"] == admin.nodes()[0]["isolation"]
    user, rights, groups = node["isolation"]
    assert user == "workers run as the service's own user, one domain of trust"
    assert rights == "no capabilities, no new privileges"
    assert "control groups" in groups
    shown = " ".join(service.cli("nodes").stdout.split())
    assert "; ".join(node["isolation"]) in shown


# --- what jobs can do


def test_a_job_runs_as_that_user(ann: Client, person: Ordinary, service: Service, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("id -u; id -g; echo x > made")
    job = ann.submit(spec("sh train.sh", workdir="."), tmp_path)["id"]
    assert ended(ann, job)["state"] == "succeeded"
    assert output(ann, job).split() == [str(person.uid).encode(), str(person.gid).encode()]
    assert (service.data / "jobs" / str(job) / "run" / "made").stat().st_uid == person.uid
    ann.pull(job, None, tmp_path / "pulled")
    assert (tmp_path / "pulled" / "made").read_text() == "x\n"


def test_a_user_with_an_account_of_the_machine_is_not_another(
    admin: Client, person: Ordinary, service: Service
) -> None:
    """Only root could run jobs as somebody else: they do not run at all."""
    admin.add_user("dave", uid=person.uid + 1)
    with user(admin, service, "dave") as dave:
        job = submit(dave, spec("id -u"))
        done = ended(dave, job)
    assert done["state"] == "failed"
    assert "only a service that runs as root" in done["reason"]


def test_a_job_cannot_gain_rights(ann: Client, person: Ordinary, service: Service) -> None:
    """By a program with root's setuid bit, neither itself nor by a command beside it."""
    program = Path(shutil.which("id") or "")
    if os.geteuid() == 0:
        program = Path(shutil.copyfile(program, person.home.parent / "id-of-root"))
        program.chmod(0o4755)
        if person.run(str(program), "-u") != "0\n":
            pytest.skip("setuid programs have no effect here")
    rights = f"{program} -u; grep -E '^(CapPrm|CapEff|CapAmb|NoNewPrivs)' /proc/self/status"
    nothing = [str(person.uid), "CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapAmb:", "0" * 16, "NoNewPrivs:", "1"]
    assert said(ann, rights).split() == nothing
    job = submit(ann, spec("exec sleep 1000"))
    in_state(ann, job, "running")
    assert service.cli("exec", str(job), "--", "sh", "-c", rights).stdout.split() == nothing


def test_what_is_not_kept_from_jobs(ann: Client, bob: Client, person: Ordinary, service: Service) -> None:
    """What the documentation says a job of such a service can reach. Where this fails, it can promise more."""
    theirs = submit(bob, spec("echo x > file; echo $$ > pid; exec sleep 1000"))
    pid, data = pid_of(service, theirs), service.data
    files = [data / name for name in ("client.json", "schedulearn.db", "secret", "api.lock", "scheduler.lock")]
    files += [data / "jobs" / str(theirs) / "run" / "file", Path(f"/proc/{pid}/environ")]
    looks = "; ".join(f"head -c 1 '{path}' > /dev/null && echo {path}" for path in files)
    locks = f"test -w {data}/start.lock && echo writable"
    assert said(ann, f"{looks}; {locks}; ls {person.home} | grep -x data").split() == [
        *map(str, files),
        "writable",
        "data",
    ]


# --- what they cannot make others believe


def forge(bob: Client, service: Service, of: int) -> str:
    """Commands that put the record of an end that went well into the place of another's: the service's own record of
    this user's job, and the same without its signature."""
    done = submit(bob, spec("true"))
    assert ended(bob, done)["state"] == "succeeded"
    record, place = (worker_file(service, job, "exit.json") for job in (done, of))
    unsigned = worker_file(service, of, "unsigned")
    return (
        f'sed \'s/"signature"/"other"/\' {record} > {unsigned}; mv {unsigned} {place}; cp {record} {place}; cat {place}'
    )


def test_a_forged_end_is_not_believed(ann: Client, bob: Client, service: Service) -> None:
    theirs = submit(ann, spec(GATED))
    pid = pid_of(service, theirs)
    in_state(ann, theirs, "running")
    assert '"exit_code": 0' in said(bob, forge(bob, service, theirs))
    assert ann.job(theirs)["state"] == "running"
    service.kill()
    service.start()
    assert said(bob, "echo the scheduler has looked at all jobs") != ""
    assert ann.job(theirs)["state"] == "running"
    assert pid in job_processes(service.data, f"{theirs}.1.0")
    let_go(service, theirs)
    done = ended(ann, theirs)
    assert (done["state"], "7" in done["reason"]) == ("failed", True)
    assert b"went on" in output(ann, theirs)


def test_nor_if_its_supervisor_is_killed(ann: Client, bob: Client, service: Service) -> None:
    """Jobs of one user can do that to each other; but the end is told as it was."""
    theirs = submit(ann, spec(GATED))
    pid_of(service, theirs)
    shim = json.loads(worker_file(service, theirs, "claim").read_text())["pid"]
    said(bob, f"{forge(bob, service, theirs)}; kill -KILL {shim}")
    done = ended(ann, theirs)
    assert done["state"] == "failed"
    assert "its supervisor was killed" in done["reason"]


# --- a crash


def test_a_running_job_is_adopted(ann: Client, service: Service) -> None:
    job = submit(ann, spec(GATED))
    pid = pid_of(service, job)
    in_state(ann, job, "running")
    service.kill()
    assert pid in job_processes(service.data, f"{job}.1.0")
    service.start()
    assert in_state(ann, job, "running")["attempt"] == 1
    let_go(service, job)
    done = ended(ann, job)
    assert (done["state"], "7" in done["reason"]) == ("failed", True)
    assert (output(ann, job), pid_of(service, job)) == (b"went on\n", pid)
