"""Every command that the documentation shows is run, as a reader would type it, page by page.

Some are made smaller on the way, so that the test is quick: see `SMALLER`. The programs that are trained are stand-ins.
"""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.pages import PAGES, Block, before, blocks, commands, files, name_of
from support.quick import quick_command
from support.service import PATIENCE, environment, kill_jobs
from support.waiting import wait_until

pytestmark = pytest.mark.slow

RUNNABLE = [page for page in PAGES if any(not block.not_run for block in blocks(page))]
# What is only made smaller: the same verbs and options, on less work.
SMALLER = {
    r"jobs=\d+": "jobs=10",
    r"--seeds \d+": "--seeds 2",
    r"--policies all": "--policies fifo,srtf",
    r"--timeout 3600": "--timeout 60",
    r"(train\.py \$lr) 0\.5": r"\1 0.25",  # the last of three waits while a busy machine comes to it
    r"(train\.py 0\.3) 0\.5": r"\1 0.05",
}
TRAIN = """\
import argparse, os, pathlib, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--pace")
known, rest = parser.parse_known_args()
began = time.time()
print("loss: 1.0", flush=True)
gate = pathlib.Path({gate!r})
if known.pace == "long":
    gate = gate.with_name("long")
while known.pace and not (gate.exists() and gate.stat().st_mtime >= began):
    time.sleep(0.02)
print("loss: 0.5", flush=True)
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out/model.pt").write_text("weights")
"""


@dataclass(frozen=True)
class Desk:
    """The reader's machine: a home, a project folder, and a shell."""

    root: Path
    bin: Path
    port: int

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def data(self) -> Path:
        return self.root / "home" / ".schedulearn"

    @property
    def gate(self) -> Path:
        """Programs that were given a `--pace` go on when it is touched; long ones have a gate of their own."""
        return self.root / "gate"

    def env(self) -> dict[str, str]:
        path = f"{self.bin}:{self.root / 'tools'}:{os.environ['PATH']}"
        more = {"HOME": str(self.root / "home"), "PATH": path, "WANDB_API_KEY": "x"}
        return environment({**more, "OMP_NUM_THREADS": "1"})

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line], cwd=self.project, env=self.env(), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=PATIENCE * 2,
        )  # fmt: skip


@pytest.fixture(scope="module")
def bin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with quick_command(tmp_path_factory.mktemp("quick")) as folder:
        yield folder


@pytest.fixture
def desk(tmp_path: Path, bin: Path) -> Iterator[Desk]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    desk = Desk(tmp_path, bin, port)
    for folder in ("home", "project", "project/examples", "tools", "srv", "backup"):
        (tmp_path / folder).mkdir()
    programs = ["train.py", "evaluate.py", *(f"examples/{p.name}" for p in Path("examples").glob("*.py"))]
    for name in programs:
        (desk.project / name).write_text(TRAIN.format(gate=str(desk.gate)))
    (desk.project / "job.yaml").write_text("command: python train.py\nresources: {cpus: 0.1}\n")
    _tool(desk.project / "train.sh", "python train.py")
    _tool(tmp_path / "tools" / "nvidia-smi", "echo no devices")
    yield desk
    for process in _services(tmp_path):
        with suppress(ProcessLookupError):  # it has ended since
            os.kill(process, signal.SIGKILL)
    for data in [desk.data, *(tmp_path / "srv").iterdir()]:
        kill_jobs(data)


def _tool(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _services(root: Path) -> list[int]:
    """What still runs with its data somewhere below."""
    folders = [root / "home" / ".schedulearn", *(root / "srv").iterdir()]
    names = ("service.json", "api.lock", "scheduler.lock")
    said = [file.read_text() for folder in folders for name in names if (file := folder / name).exists()]
    found = {int(pid) for text in said for pid in re.findall(r'"pid": (\d+)', text)}
    return [pid for pid in found if Path(f"/proc/{pid}").exists()]


# --- what must be there before


def a_service(desk: Desk, *options: str) -> None:
    done = desk.run(" ".join([f"schedulearn up --detach --port {desk.port}", *options]))
    assert done.returncode == 0, done.stderr


def a_service_that_tells(desk: Desk) -> None:
    a_service(desk, "--mail-command true --allow-notify @example.org --allow-notify https://hooks.example.org")


def jobs_17_and_18(desk: Desk) -> None:
    """Two jobs that run, the first with workers that come and go."""
    a_service(desk)
    with closing(sqlite3.connect(desk.data / "schedulearn.db", timeout=PATIENCE)) as database, database:
        database.execute("INSERT INTO sqlite_sequence VALUES ('jobs', 16)")
    for options in ("--launcher elastic --workers 2", ""):
        done = desk.run(f"schedulearn submit --cpus 0.1..2 {options} -- python train.py --pace long")
        assert done.returncode == 0, done.stderr
    wait_until(lambda: desk.run("schedulearn ls --json").stdout.count('"state": "running"') == 2, PATIENCE, "they run")


BEFORE: dict[str, Callable[[Desk], None]] = {
    "": lambda _: None,
    "a service": a_service,
    "a service that tells": a_service_that_tells,
    "jobs 17 and 18": jobs_17_and_18,
}

# --- the test itself


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_commands_of_a_page_do_what_they_should(page: Path, desk: Desk) -> None:
    BEFORE[before(page)](desk)
    for name, text in files(page):
        (desk.project / name).write_text(text)
    folder, variables = ".", ""
    for block in blocks(page):
        if not block.not_run:
            folder, variables = _run_block(desk, block, folder, variables)


def _run_block(desk: Desk, block: Block, folder: str, variables: str) -> tuple[str, str]:
    lines = [_here(desk, line) for line in commands(block.text)]
    for number, line in enumerate(lines, 1):
        if line.startswith("cd "):
            folder = line.removeprefix("cd ")
        elif re.match(r"(export )?[A-Z_]+=(\S+|\$\(.*\))$", line):
            variables += f"{line}\n"
        else:
            expected = block.code if number == len(lines) else 0
            done = _run_line(desk, f"cd {folder}\n{variables}{line}")
            assert done.returncode == expected, f"{line}\n{done.stdout}\n{done.stderr}"
            if line.startswith("kill "):
                wait_until(lambda: not _services(desk.root), PATIENCE, "the service is dead")
    return folder, variables


def _run_line(desk: Desk, line: str) -> subprocess.CompletedProcess[str]:
    if re.search(r"schedulearn (update|exec|pause)", line):  # nobody types this before the job has begun
        wait_until(lambda: desk.run("schedulearn ls --state starting --json").stdout.strip() == "[]", PATIENCE)
    if re.search(r"schedulearn (wait|run)|client", line):
        with _open(desk.gate, *([desk.gate.with_name("long")] if "schedulearn wait" in line else [])):
            return desk.run(line)
    if re.search(r"schedulearn logs .*(-f|--follow)|schedulearn top$", line):  # until Ctrl-C
        stopped = line.replace("schedulearn ", "timeout --foreground --signal INT --preserve-status 1 schedulearn ")
        return desk.run(stopped + "; [ $? = 0 -o $? = 130 ]")
    if re.search(r"schedulearn up\b(?!.*--detach)", line):
        return desk.run(f"{line} > up.log 2>&1 & until grep -q ' is up' up.log || ! kill -0 $!; do sleep 0.05; done\n"
                      "grep ' is up' up.log || cat up.log >&2; kill $!; wait $!")  # fmt: skip
    return desk.run(line)


@contextmanager
def _open(*gates: Path) -> Iterator[None]:
    """Whoever waits there, or comes there meanwhile, goes through."""
    over = threading.Event()

    def keep() -> None:
        while not over.wait(0.05):
            for gate in gates:
                gate.touch()

    thread = threading.Thread(target=keep)
    thread.start()
    yield
    over.set()
    thread.join()


def _here(desk: Desk, line: str) -> str:
    """The same on this desk: its own port, and folders of its own instead of the machine's."""
    for pattern, smaller in SMALLER.items():
        line = re.sub(pattern, smaller, line)
    line = line.replace("7311", str(desk.port)).replace("0.0.0.0", "127.0.0.1")
    return line.replace("/srv/", f"{desk.root}/srv/").replace("/mnt/backup/", f"{desk.root}/backup/")


def test_what_is_not_run_says_why() -> None:
    skipped = [(name_of(page), block.not_run) for page in PAGES for block in blocks(page) if block.not_run]
    assert all(len(reason) > 5 for _, reason in skipped)
    ran = sum(not block.not_run for page in PAGES for block in blocks(page))
    assert ran > len(skipped), f"most are run: {ran} of {ran + len(skipped)}"
