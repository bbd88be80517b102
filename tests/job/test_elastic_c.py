"""The example in C follows its control file while it runs."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.waiting import wait_until

SOURCE = Path(__file__).parents[2] / "examples" / "elastic.c"
LOSS = re.compile(r"step (\d+) loss=([\d.]+) threads (\d+)")

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    made = tmp_path / "elastic"
    words = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", str(made), str(SOURCE), "-lm"]
    subprocess.run(words, check=True, timeout=60)
    return made


class Running:
    """The program, its output, and the file that it follows."""

    def __init__(self, program: Path, folder: Path, worker: str) -> None:
        self._control, self._output = folder / "control.json", folder / "output"
        self.tell(threads=1, members=[0, 2, 12])
        env = {**os.environ, "SCHEDULEARN_CONTROL": str(self._control), "SCHEDULEARN_WORKER": worker}
        with open(self._output, "wb") as output:
            self.process = subprocess.Popen([str(program), "1000000", "0.01"], stdout=output, env=env)

    def tell(self, **limits: object) -> None:
        """As the executor does it."""
        fresh = self._control.with_suffix(".tmp")
        fresh.write_text(json.dumps({"cpus": 1.0, "memory": None, "world_size": 3, "generation": 1, **limits}))
        fresh.replace(self._control)

    def steps(self) -> list[tuple[int, float, int]]:
        return [(int(a), float(b), int(c)) for a, b, c in LOSS.findall(self._output.read_text())]

    @property
    def last_line(self) -> str:
        return self._output.read_text().splitlines()[-1]


@pytest.fixture
def running(program: Path, tmp_path: Path) -> Iterator[Running]:
    started = Running(program, tmp_path, "17.2.2")
    yield started
    started.process.kill()
    started.process.wait()


def test_it_learns_outside_of_schedulearn(program: Path) -> None:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULEARN_")}
    done = subprocess.run([str(program), "30"], env=alone, capture_output=True, text=True, timeout=60)
    losses = [float(loss) for _, loss, _ in LOSS.findall(done.stdout)]
    assert (done.returncode, len(losses)) == (0, 30)
    assert losses[-1] < losses[0] / 10


def test_threads_follow_and_it_leaves_when_it_is_no_member(running: Running) -> None:
    wait_until(running.steps, what="the first step")
    running.tell(threads=3, members=[0, 2])
    wait_until(lambda: running.steps()[-1][2] == 3, what="three threads")
    running.tell(threads=1, members=[0, 2])
    wait_until(lambda: running.steps()[-1][2] == 1, what="one thread again")
    assert running.process.poll() is None
    running.tell(threads=1, members=[0, 12])
    assert running.process.wait(60) == 0
    assert running.last_line.startswith("leaving before step")
    done = running.steps()
    assert [step for step, _, _ in done] == list(range(1, len(done) + 1))
