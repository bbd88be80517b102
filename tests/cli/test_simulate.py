"""`simulate`: the figures, the files, what is told on stderr, and what is refused."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedulearn.cli.common.params import params_of
from support.application import Application

TRACE = "submission_time,num_gpu,duration,deadline\n0,1,10,5000\n1,2,10,5000\n3,1,5,5000\n"
PROMISED = (
    "policy", "jobs", "completed", "avg_jct", "p50_jct", "p95_jct", "p99_jct", "avg_wait", "makespan", "utilization",
    "preemptions", "migrations", "resizes", "wall_seconds",
)  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(TRACE)
    return path


def test_json_is_one_object_with_the_promised_keys(cli: Any, trace: Path) -> None:
    result = cli("simulate", "--trace", trace, "--cluster", "1x2", "--policy", "fifo", "--json")
    assert result.code == 0
    assert set(PROMISED) <= set(result.json)
    # Worked out by hand: ends at 10, 20 and 8 (job 3 goes past job 2).
    assert (result.json["avg_jct"], result.json["makespan"]) == ((10 + 19 + 5) / 3, 20.0)


def test_the_command_that_is_compared_with_other_simulators(cli: Any, trace: Path) -> None:
    given = ("--place", "count", "--oracle", "--restart-cost", "0", "--param", "starvation_guard=off", "--json")
    strict = cli("simulate", "--trace", trace, "--cluster", "1x2", "--policy", "fifo", "--allocate", "strict", *given)
    assert (strict.code, strict.json["makespan"]) == (0, 25.0)
    assert "starvation_guard has no effect under fifo" in strict.err
    for policy in ("fifo", "srtf", "srsf"):
        assert cli("simulate", "--trace", trace, "--cluster", "1x2", "--policy", policy, *given).code == 0
    queues = ("--param", "promote=off", "--param", "thresholds=3250,7200")
    assert cli("simulate", "--trace", trace, "--cluster", "1x2", "--policy", "tiresias", *queues, *given).code == 0


def test_figures_for_a_person(cli: Any, trace: Path) -> None:
    result = cli("simulate", "--trace", trace, "--cluster", "1x2", "--policy", "srjf")
    assert result.code == 0
    for words in ("srjf on small, 1x2", "3 of 3", "order srjf", "makespan", "estimates from earlier jobs", "0 of 3"):
        assert words in result.out


def test_files(cli: Any, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    result = cli("simulate", "--trace", trace, "--cluster", "1x2", "--out", out)
    assert result.code == 0
    assert sorted(file.name for file in out.iterdir()) == ["jobs-fifo.csv", "report.html", "report.json", "results.csv"]
    assert "report.html" in result.out


def test_what_is_left_out_is_told(cli: Any, trace: Path) -> None:
    trace.write_text(TRACE + "4,1,-3,9\n" + "5,8,10,99\n" + "x,1,1,1\n" * 7)
    result = cli("simulate", "--trace", trace, "--cluster", "1x2", "--json")
    assert result.code == 0
    assert (result.json["jobs"], result.json["completed"], result.json["impossible"]) == (4, 3, 1)
    assert result.json["malformed_rows"] == 8
    for words in ("8 malformed rows", "line 5: duration must not be negative", "and 3 more", "job 6: 8 GPUs"):
        assert words in result.err
    strict = cli("simulate", "--trace", trace, "--cluster", "1x2", "--strict")
    assert (strict.code, "line 5" in strict.err) == (2, True)


def test_numbers_of_a_parameter_come_from_a_file(cli: Any, trace: Path, tmp_path: Path) -> None:
    times = tmp_path / "times.csv"
    times.write_text("duration\n30\n10\n20\n")
    run = ("simulate", "--trace", trace, "--cluster", "1x2", "--policy", "tiresias-gittins", "--json", "--param")
    assert params_of([f"gpu_times=@{times}"]) == {"gpu_times": (10.0, 20.0, 30.0)}
    assert cli(*run, f"gpu_times=@{times}").code == 0
    times.write_text("duration\n30\nten\n")
    broken = cli(*run, f"gpu_times=@{times}")
    assert broken.code == 2
    assert "--param gpu_times" in broken.err
    assert "line 3 is not a number: 'ten'" in broken.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--policy", "frtf"], ["--policy", "did you mean 'srtf'"]),
        (["--order", "las2"], ["--order", "did you mean 'las'"]),
        (["--share", "flowco"], ["--share", "did you mean 'flowcon'"]),
        (["--migrate", "nomad"], ["--migrate", "allowed: none, consolidate"]),
        (["--param", "promote"], ["--param", "KEY=VALUE"]),
        (["--param", "gpu_times=@/nowhere/times.csv"], ["--param gpu_times", "cannot read", "/nowhere/times.csv"]),
        (
            ["--policy", "tiresias-gittins", "--param", "gpu_times=nan,5"],
            ["--param gpu_times", "rising numbers above 0"],
        ),
        (["--param", "starvation_guard=x"], ["--param starvation_guard", "not a duration"]),
        (["--cluster", "0x4"], ["--cluster", "16x4"]),
        (["--cluster", "1x2c"], ["--cluster", "no node has a GPU"]),
        (["--cluster", "slow.yaml"], ["--cluster: cluster[1].bandwidth: 'slow' is no bandwidth", "Gbit/s"]),
        (["--bandwidth", "0"], ["--bandwidth", "Gbit/s"]),
        (["--gpu-use", "2"], ["--gpu-use", "above 0, up to 1"]),
        (["--trace", "synthetic:philly?cpus=1"], ["--cluster", "no node has cores", "2x8c"]),
        (["--policy", "flowcon", "--param", "itval=0"], ["--param itval", "more than 0 seconds"]),
        (["--policy", "flowcon", "--param", "beta=0"], ["--param beta", "1 to 1000"]),
        (["--policy", "flowcon", "--param", "growing=fast"], ["--param growing", "full, proportional"]),
        (["--format", "filly"], ["--format", "did you mean philly"]),
        (["--trace", "synthetic:philly?lod=1"], ["lod", "allowed: jobs, load"]),
        (["--trace", "empty.csv"], ["--trace", "is empty"]),
        (["--trace", "header.csv"], ["--trace", "no jobs"]),
        (["--history"], ["either --trace FILE or --history"]),
        (["--restart-cost", "soon"], ["--restart-cost", "not a duration"]),
        (["--jobs", "0"], ["--jobs", "at least 1"]),
        (["--out", "empty.csv/folder"], ["--out", "cannot make the folder"]),
        (["--policies", "fifo"], ["--policies"]),
    ],
)
def test_wrong_use(cli: Any, trace: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], words: list[str]) -> None:
    monkeypatch.chdir(trace.parent)
    Path("empty.csv").write_text("")
    Path("slow.yaml").write_text("[{gpus: 2}, {gpus: 2, bandwidth: slow}]")
    Path("header.csv").write_text(TRACE.partition("\n")[0] + "\n")
    given = {"--trace": str(trace), "--cluster": "1x2"} | dict(zip(args[::2], args[1::2], strict=False))
    flags = args if len(args) % 2 else []
    result = cli("simulate", *(text for pair in given.items() for text in pair), *flags)
    assert result.code == 2
    assert all(word in result.err for word in words), result.err
    assert result.out == ""


def test_a_workload_and_a_cluster_must_be_named(cli: Any, trace: Path) -> None:
    assert "--trace" in cli("simulate", "--cluster", "1x2").err
    assert "--cluster" in cli("simulate", "--trace", trace).err


def test_a_policy_of_ones_own(cli: Any, trace: Path) -> None:
    file = trace.parent / "mine.py"
    file.write_text(
        "from schedulearn.core.policies.stages import Order\n"
        "class Last(Order):\n    def key(self, job, now, facts):\n        return (-job.id,)\n"
        "class Broken(Order):\n    def key(self, job, now, facts):\n        return job.nothing\n"
    )
    result = cli("simulate", "--trace", trace, "--cluster", "1x2", "--policy", f"{file}:Last", "--json")
    assert (result.code, result.json["completed"]) == (0, 3)
    broken = cli("simulate", "--trace", trace, "--cluster", "1x2", "--policy", f"{file}:Broken")
    assert broken.code == 1
    assert "AttributeError" in broken.err
    assert "job.nothing" in broken.err


def test_the_services_own_history(cli: Any, service: Application) -> None:
    empty = cli("simulate", "--history", "--cluster", "1x1c")
    assert (empty.code, "not run any job" in empty.err) == (2, True)
    for number in (17, 18, 19):
        service.submit()
        service.clock.pass_time(298)
        service.end(number)
    service.submit()
    cli("cancel", service.submit(gpus=2))  # it never ran
    result = cli("simulate", "--history", "--cluster", "1x1c", "--json")
    assert (result.code, result.json["trace"], result.json["completed"]) == (0, "history", 3)
    assert result.json["makespan"] == 3 * 298.0  # one after the other, as they came
    assert "cores in use" in cli("simulate", "--history", "--cluster", "1x1c").out


def test_asking_for_help_loads_no_simulator() -> None:
    script = (
        "import sys; from schedulearn.cli.main import main; main(['simulate', '--help']);"
        "sys.exit(any(name.startswith('schedulearn.lab.sim') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_policy_check_shows_the_smallest_example(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from schedulearn.policy import Order\n"
        "class Mine(Order):\n"
        "    def key(self, job, now, facts):\n"
        "        return (job.shape.workers.want, 1 / (job.shape.workers.want - 2))\n"
    )
    result = cli("policy", "check", tmp_path / "mine.py")
    assert result.code != 0
    assert "breaks a rule: it raises no error" in result.out
    assert "ZeroDivisionError" in result.out
    assert "return (job.shape.workers.want, 1 / (job.shape.workers.want - 2))" in result.err
    assert "keeps all rules in 3 workloads" in cli("policy", "check", "fifo", "--tries", 3).out
    assert "there is no file" in cli("policy", "check", "nowhere.py").err
