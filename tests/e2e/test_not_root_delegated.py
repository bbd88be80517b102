"""A service of an ordinary user that was given control groups of its own: its jobs are held to their limits by them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from schedulearn.executors.process.cgroups import MOST_PROCESSES, PARENT, detect, for_all_workers
from support.jobs import ended, output, script, spec, submit
from support.ordinary import ordinary
from support.service import PATIENCE, Service
from support.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give control groups to others")
ENTER = 'for group in {}; do echo $$ > $group/cgroup.procs; done; exec "$@"'


@pytest.fixture
def groups() -> Iterator[dict[str, Path]]:
    """One of each controller, for the service; of version 1, as systemd gives none of these to users by itself."""
    permitted = detect()
    if not (permitted.cpu and permitted.memory and permitted.pids):
        pytest.skip("this machine has no control groups of version 1 that could be given to somebody")
    bases = {"cpu": permitted.cpu, "memory": permitted.memory, "pids": permitted.pids}
    made = {name: Path(tempfile.mkdtemp(prefix="schedulearn-test-", dir=base)) for name, base in bases.items()}
    yield made
    wait_until(lambda: all(map(removed, made.values())), PATIENCE, "nobody is in them any more")


def removed(group: Path) -> bool:
    with suppress(OSError):
        for folder, _, _ in os.walk(group, topdown=False):
            Path(folder).rmdir()
    return not group.exists()


def test_control_groups_that_it_was_given(groups: dict[str, Path]) -> None:
    around = Path(tempfile.mkdtemp(prefix="schedulearn-test-"))
    around.chmod(0o755)
    (around / "home").mkdir()
    try:
        person = ordinary(around / "home")
        for group in groups.values():
            for path in (group, group / "cgroup.procs", group / "tasks"):
                os.chown(path, person.uid, person.gid)
        enter = ["sh", "-c", ENTER.format(" ".join(map(str, groups.values()))), "sh"]
        with (
            Service(person.home / "data", through=[*enter, *person.through]) as service,
            service.client() as client,
        ):
            [node] = client.nodes()
            assert node["isolation"][-1] == "control groups: cpu, memory, pids"
            job = submit(client, spec("echo $$; exec sleep 1000", resources={"cpus": 1, "memory": "64MB"}))
            pid = int(wait_until(lambda: output(client, job), PATIENCE, "it runs"))
            [own] = (groups["memory"] / PARENT).glob(f"*-{job}.1.0")
            held = {name: group / PARENT / own.name for name, group in groups.items()}
            assert all(str(pid) in (group / "cgroup.procs").read_text().split() for group in held.values())
            assert int((held["pids"] / "pids.max").read_text()) == MOST_PROCESSES
            all_workers = int((own.parent / "memory.limit_in_bytes").read_text())
            assert 0 <= for_all_workers(node["capacity"]["memory"]) - all_workers < 1 << 16
            greedy = submit(client, script("b'x' * 10**9", resources={"cpus": 1, "memory": "64MB"}))
            assert "out of memory" in ended(client, greedy)["reason"]
    finally:
        shutil.rmtree(around)
