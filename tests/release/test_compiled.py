"""The compiled core decides as its source does."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.control import decide
from support.pages import ROOT

TRACE = "synthetic:philly?jobs=200&load=3&gpus=16&seed=3&deadlines=0.3&elastic=true"
PRESETS = ("fifo", "srtf", "tiresias", "gandiva", "elastic-fifo", "afs-l")
# Of each preset every job with its times and counts, and where the code that decided is.
RUN = """
import json, sys
from schedulearn.core.control import decide
from schedulearn.lab.sim.engine import Simulation
from schedulearn.lab.sim.run import Request, prepare

study = prepare(Request(cluster="2x8", policies=sys.argv[2:], trace=sys.argv[1], oracle=True))
runs = [Simulation(study.workload, study.nodes, choice.build(), study.options).run() for choice in study.choices]
print(json.dumps([decide.__file__, [repr(run.jobs) for run in runs]]))
"""


def _run(path: Path) -> Any:
    words = [sys.executable, "-c", RUN, TRACE, *PRESETS]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(path)}, check=True, capture_output=True)
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.timeout(1800)  # the compiler works for one to five minutes
def test_the_compiled_core_decides_as_its_source_does(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, env={**os.environ, "SCHEDULEARN_COMPILE": "1"}, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "compiled")
    file, compiled = _run(tmp_path / "compiled")
    assert file.endswith(".so"), "what is compared is the source itself"
    assert decide.__file__.endswith(".py")
    assert compiled == _run(ROOT / "src")[1]
