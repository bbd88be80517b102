"""Live runs from end to end: a private service, real training, real processes; and nothing is left of it."""

import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedulearn.lab.experiments.catalogue import CATALOGUE
from schedulearn.lab.experiments.models import FLOWCON
from schedulearn.lab.experiments.report import write_report
from schedulearn.lab.experiments.tables import both, comparisons
from schedulearn.lab.experiments.types import Experiment, Figure, Machines, Variant
from schedulearn.lab.experiments.workloads import At, Trainings
from schedulearn.lab.live import saving, subscription
from schedulearn.lab.live.collect import energy_of
from schedulearn.lab.live.entries import run_live
from schedulearn.lab.live.service import LiveError, Place
from support.service import command_line, environment
from support.waiting import wait_until

PATIENCE = 300.0  # seconds for what should take a few
NONE_RUNNING = Variant("no limits", "fifo", {"share": "fair"})
OTHER = Variant("k8s-default", "k8s-default")
TINY = Experiment(
    "tiny",
    "Two small jobs.",
    "nobody",
    Trainings("tiny", FLOWCON, ("MNIST-P", "MNIST-T"), At((0.0, 20.0)), 2),
    Machines(1, cores=8.0),
    (NONE_RUNNING, OTHER),
    (Figure("makespan", NONE_RUNNING.label, 126.1), Figure("job change:MNIST-T", OTHER.label)),
    why="It is tiny.",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """All that a live run makes is in here, and gone afterwards; so are its processes."""
    place = tmp_path / "live"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", str(place))
    yield place
    assert not list(place.glob("schedulearn-live-*"))
    wait_until(lambda: not processes(place), 60, "no process is left")  # supervisors end a moment after their jobs


def processes(place: Path) -> list[int]:
    """Those that work on something in there: the service, supervisors, trainings."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if f"{place}/schedulearn-live-".encode() in told:
            found.append(int(process.name))
    return found


def trains(pid: int) -> bool:
    try:
        return b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_run(tmp_path: Path) -> None:
    done: list[float] = []
    said: list[str] = []
    outcome = run_live(TINY, 1, 0.02, Place(), done.append, said.append)
    assert done == sorted(done)
    assert done[-1] == 2
    assert outcome.how.startswith("live")
    assert "a step alone takes: mlp" in said[0]
    assert "hardly more than it takes to start" in said[1]
    for label in (NONE_RUNNING.label, OTHER.label):
        (run,) = outcome.runs[label]
        assert [(job.label, job.model) for job in run.jobs] == [("1 MNIST-P", "MNIST-P"), ("2 MNIST-T", "MNIST-T")]
        for job, arrival in zip(run.jobs, (0.0, 20.0), strict=True):
            assert arrival <= job.arrival <= job.started < job.ended
        assert {event.kind for event in run.timeline.events} >= {"policy_set", "submitted", "succeed"}
        assert [stay.serial for stay in run.timeline.stays] == [1, 2]
        assert all(stay.end > stay.start for stay in run.timeline.stays)
    for row, simulated in both(outcome):
        assert simulated
        assert simulated != row.ours
    assert [one.policy for one in comparisons(outcome)] == [OTHER.label]
    page = write_report(tmp_path, outcome, ["schedulearn"])[0].read_text("utf-8")
    assert "live, " in page
    assert said[0] in page


def test_a_policy_that_the_service_does_not_take() -> None:
    """It is found before anything is trained. Thresholds by the second grow as time shrinks: here out of bounds."""
    flowcon = CATALOGUE["fixed-3"].variants[1]
    with pytest.raises(LiveError, match=re.escape(f"does not take '{flowcon.label}'")):
        run_live(replace(TINY, variants=(NONE_RUNNING, flowcon), figures=()), 1, 0.01, Place(), print, print)


def test_throughput_over_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "QUOTAS", (0.05, 1.0))  # far apart: also on a busy machine
    experiment = CATALOGUE["subscription"]
    small = replace(
        experiment,
        variants=experiment.variants[-1:],
        figures=[Figure(f"throughput:{quota}", subscription.FOLLOWING) for quota in ("0.05", "1")],
    )
    outcome = run_live(small, 1, 0.05, Place(), print, print)
    (run,) = outcome.runs[subscription.FOLLOWING]
    assert 0 < run.values["0.05"] < run.values["1"]


def test_what_saving_costs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(saving, "PARTS", (50,))
    experiment = CATALOGUE["saving"]
    label = experiment.variants[1].label
    small = replace(experiment, variants=experiment.variants[1:2], figures=[Figure("overhead:50", label, (0.0, 5.0))])
    outcome = run_live(small, 1, 0.01, Place(), print, print)
    assert outcome.base[0].values["50"] > 0
    files = {file.name for file in write_report(tmp_path, outcome, ["schedulearn"])}
    assert "overhead.png" in files
    assert "save and resume at 50 %" in (tmp_path / "table.md").read_text("utf-8")
    with pytest.raises(LiveError, match="plain processes"):
        run_live(small, 1, 1.0, Place("docker", "image"), print, print)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_everything(folder: Path, number: int) -> None:
    command = command_line("experiment", "run", "fixed-3", "--live", "--policy", "fifo", "--scale", "1")
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: any(map(trains, processes(folder))), PATIENCE, "a training runs")
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, said
    finally:
        process.kill()
        process.communicate()


def test_the_energy_of_a_job_is_that_of_all_its_workers_or_unknown() -> None:
    looks: Any = [{"energy": 2.0}, {"energy": 3.0}]
    assert energy_of(looks) == 5.0
    assert energy_of([*looks, {"energy": None}]) is None
    assert energy_of([]) is None
