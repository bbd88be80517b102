"""Energy: counters of processors in a folder as Linux has it, and of GPUs by a library that stands in for NVML."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.ids import DeviceId, JobId, WorkerId
from schedulearn.executors.kernel.energy import EnergyMeter, Gpus, Rapl, busy_seconds

ONE, TWO = WorkerId(JobId(1), 1, 0), WorkerId(JobId(2), 1, 0)
RANGE = 1_000_000  # microjoules after which the counters here begin anew


class Powercap:
    """Two packages, one of them with its memory counted apart; cores and the whole system are counted in these."""

    ZONES = {  # noqa: RUF012
        "intel-rapl:0": "package-0",
        "intel-rapl:0:0": "core",
        "intel-rapl:0:1": "dram",
        "intel-rapl:1": "package-1",
        "intel-rapl:2": "psys",
        "intel-rapl-mmio:0": "package-0",
    }

    def __init__(self, root: Path) -> None:
        self.root = root
        for zone, name in self.ZONES.items():
            (root / zone).mkdir(parents=True)
            (root / zone / "name").write_text(f"{name}\n")
            (root / zone / "max_energy_range_uj").write_text(f"{RANGE}\n")
            self.set(zone, 0)

    def set(self, zone: str, microjoules: int) -> None:
        (self.root / zone / "energy_uj").write_text(f"{microjoules % RANGE}\n")


@pytest.fixture
def powercap(tmp_path: Path) -> Powercap:
    return Powercap(tmp_path / "powercap")


def test_packages_and_memory_are_added_up_and_nothing_twice(powercap: Powercap) -> None:
    rapl = Rapl(powercap.root)
    assert rapl.present
    for zone in Powercap.ZONES:
        powercap.set(zone, 100_000)
    assert rapl.joules() == pytest.approx(0.3)


def test_a_counter_that_begins_anew(powercap: Powercap) -> None:
    powercap.set("intel-rapl:0", 900_000)
    rapl = Rapl(powercap.root)
    powercap.set("intel-rapl:0", 1_300_000)
    assert rapl.joules() == pytest.approx(0.4)


def test_a_zone_that_may_not_be_read_is_left_out(powercap: Powercap) -> None:
    for zone in Powercap.ZONES:
        (powercap.root / zone / "energy_uj").unlink()
    assert not Rapl(powercap.root).present
    powercap.set("intel-rapl:1", 0)
    rapl = Rapl(powercap.root)
    (powercap.root / "intel-rapl:1" / "energy_uj").unlink()
    assert rapl.joules() == 0


def test_where_nothing_is_counted_nothing_is_said(tmp_path: Path) -> None:
    assert EnergyMeter(Rapl(tmp_path)).joules(ONE, 5.0) is None


class Machine:
    """What a meter sees: the clock of the processors' work is the test's."""

    def __init__(self, powercap: Powercap) -> None:
        self.powercap, self.busy, self.used = powercap, 100.0, 0
        self.meter = EnergyMeter(Rapl(powercap.root), busy=lambda: self.busy)

    def work(self, seconds: float, millijoules: int) -> None:
        self.busy += seconds
        self.used += 1000 * millijoules
        self.powercap.set("intel-rapl:0", self.used)


def test_a_workers_part_is_its_part_of_the_cpu_time(powercap: Powercap) -> None:
    machine = Machine(powercap)
    assert machine.meter.joules(ONE, 50.0) == 0
    assert machine.meter.joules(TWO, 7.0) == 0
    machine.work(10.0, 800)
    assert machine.meter.joules(ONE, 55.0) == pytest.approx(0.4)
    assert machine.meter.joules(TWO, 9.5) == pytest.approx(0.2)
    machine.work(10.0, 100)
    assert machine.meter.joules(ONE, 55.0) == pytest.approx(0.4), "who does nothing uses nothing"
    machine.meter.forget(ONE)
    assert machine.meter.joules(ONE, 60.0) == 0


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(0, 900)), max_size=12))
def test_workers_never_have_more_than_there_was(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[tuple[int, int, int]]
) -> None:
    machine = Machine(Powercap(tmp_path_factory.mktemp("energy") / "powercap"))
    machine.meter.joules(ONE, 0.0), machine.meter.joules(TWO, 0.0)
    one = two = spent = last = 0.0
    for first, second, millijoules in rounds:
        one, two, spent = one + first / 100, two + second / 100, spent + millijoules / 1000
        machine.work((first + second) / 100, millijoules)
        total = (machine.meter.joules(ONE, one) or 0.0) + (machine.meter.joules(TWO, two) or 0.0)
        assert last - 1e-9 <= total <= spent + 1e-9
        last = total


def test_the_machine_is_busy() -> None:
    before = busy_seconds()
    while busy_seconds() <= before:
        sum(range(100_000))


# --- GPUs

LIBRARY = r"""
#include <stdlib.h>
#include <string.h>
static long device[2] = {0, 1};
static unsigned long long set(const char *name) { const char *v = getenv(name); return v ? strtoull(v, 0, 10) : 0; }
int nvmlInitWithFlags(unsigned int flags) { return set("FAKE_NO_DRIVER") ? 9 : 0; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "out of order"; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  if (strcmp(uuid, "GPU-0") && strcmp(uuid, "GPU-1")) return 6;
  *handle = &device[uuid[4] - '0'];
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(long *d, unsigned long long *energy) {
  static unsigned long long asked[2];
  if (*d == 1 && set("FAKE_OLD")) return 3;
  *energy = 5000 + 250 * (*d + 1) * asked[*d]++;
  return 0;
}
"""
ASK = """
import json, sys
from pathlib import Path
from schedulearn.core.domain.ids import DeviceId, JobId, WorkerId
from schedulearn.executors.kernel.energy import EnergyMeter, Rapl
meter = EnergyMeter(Rapl(Path("/nowhere")))
print(json.dumps([meter.joules(WorkerId(JobId(1), 1, 0), 1.0, sys.argv[1:]) for _ in range(3)]))
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Three looks at a worker with these GPUs, in a process that finds the library."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is needed to build the library that stands in for NVML")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(LIBRARY)
    target = str(folder / "libnvidia-ml.so.1")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", target, str(folder / "nvml.c")], check=True)

    def run(*devices: str, **settings: int) -> Any:
        env = {name: str(value) for name, value in settings.items()}
        env |= {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-W", "error", "-c", ASK, *devices]
        return json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)

    return run


@pytest.mark.parametrize(
    ("devices", "joules"),
    [
        (["GPU-0"], [0.0, 0.25, 0.5]),
        (["GPU-0", "GPU-1"], [0.0, 0.75, 1.5]),
        (["GPU-0", "GPU-of-another-machine"], [0.0, 0.25, 0.5]),
        (["GPU-of-another-machine"], [None, None, None]),
        ([], [None, None, None]),
    ],
)
def test_what_its_gpus_took_is_the_workers(ask: Any, devices: list[str], joules: list[float | None]) -> None:
    assert ask(*devices) == joules


def test_a_gpu_that_cannot_tell(ask: Any) -> None:
    assert ask("GPU-0", "GPU-1", FAKE_OLD=1) == [0.0, 0.25, 0.5]
    assert ask("GPU-1", FAKE_OLD=1) == [None, None, None]
    assert ask("GPU-0", FAKE_NO_DRIVER=1) == [None, None, None]


def test_gpus_in_this_very_process() -> None:
    assert Gpus().joules(DeviceId("GPU-that-is-not-there")) is None
