"""Start to healthy, memory, and what a service costs that has nothing to do."""

import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from bench.figures import Figures, median
from bench.service import Service, environment, folder
from bench.world import Statements
from schedulearn.service.common.config import Options
from schedulearn.service.runtime import Runtime

_STARTS = 5
_SETTLE, _WATCH = 5.0, 10.0  # seconds
# What the service is made of, each loaded on top of those before it.
_LAYERS = {
    "Python alone": "sys",
    "+ command line": "schedulearn.cli.main, schedulearn.cli.up",
    "+ SQLAlchemy": "sqlalchemy, sqlalchemy.dialects.sqlite, sqlalchemy.dialects.postgresql",
    "+ FastAPI, pydantic": "fastapi",
    "+ uvicorn": "uvicorn",
    "+ our own server": "schedulearn.api.server",
}
_LARGEST = 8  # packages shown


def measure() -> Figures:
    figures = Figures("Start and idle service")
    with folder() as root:
        cold = [_start(root / f"cold{n}") for n in range(_STARTS)]
        warm = [_start(root / "cold0") for _ in range(_STARTS)]
        figures.add("first start to healthy, median", median(cold), "s", aim=2.0)
        figures.add("later start to healthy, median", median(warm), "s", aim=2.0)
        _idle(figures, root / "idle")
        figures.add("SQL statements a second, idle", _idle_statements(root / "statements"))
        _imports(figures, root)
        _memory(figures, root)
    return figures


def _start(data: Path) -> float:
    service = Service(data)
    service.stop()
    return service.seconds


def _idle(figures: Figures, data: Path) -> None:
    service = Service(data)
    time.sleep(_SETTLE)
    memory = _memory_of(service.pid)
    before = _cpu_of(service.pid)
    time.sleep(_WATCH)
    busy = (_cpu_of(service.pid) - before) / _WATCH
    service.stop()
    figures.add("memory when idle (RSS)", memory["Rss"], "MB", aim=120)
    figures.add("memory when idle (PSS)", memory["Pss"], "MB")
    figures.add("CPU when idle", busy * 100, "%")


def _memory_of(pid: int) -> dict[str, float]:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(kb) / 1000 * 1.024 for name, kb in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}


def _cpu_of(pid: int) -> float:
    """Seconds of CPU so far; as exact as the kernel counts it for each thread."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def _idle_statements(data: Path) -> float:
    with Runtime(Options(data)) as runtime:
        runtime.start_scheduler(on_end=lambda: None)
        time.sleep(1)
        statements = Statements(runtime.store)
        time.sleep(_WATCH)
        return statements.count / _WATCH


def _imports(figures: Figures, root: Path) -> None:
    """Seconds that modules take to load, by package. Measuring makes them about half as slow again."""
    words = [sys.executable, "-X", "importtime", "-c", "import schedulearn.cli.up, schedulearn.api.server"]
    told = subprocess.run(words, env=environment(root), capture_output=True, text=True, check=True).stderr
    own: defaultdict[str, int] = defaultdict(int)
    for micros, module in re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", told):
        package = module.partition(".")[0]
        own["the standard library" if package in sys.stdlib_module_names else package] += int(micros)
    figures.add("loading modules, all", sum(own.values()) / 1e3, "ms")
    for package, micros in sorted(own.items(), key=lambda item: -item[1])[:_LARGEST]:
        figures.add(f"  {package}", micros / 1e3, "ms")


def _memory(figures: Figures, root: Path) -> None:
    lines = ["from pathlib import Path", "rss = lambda: print(Path('/proc/self/smaps_rollup').read_text().split()[7])"]
    for modules in _LAYERS.values():
        lines += [f"import {modules}", "rss()"]
    words = [sys.executable, "-c", "\n".join(lines)]
    told = subprocess.run(words, env=environment(root), capture_output=True, text=True, check=True).stdout
    before = 0.0
    for name, kb in zip(_LAYERS, told.split(), strict=True):
        mb = int(kb) / 1000 * 1.024
        figures.add(f"memory: {name}", mb - before, "MB", against=f"{mb:.0f} MB so far")
        before = mb
