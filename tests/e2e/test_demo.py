"""`make demo` as a stranger runs it: nothing activated, nothing set."""

import os
import subprocess
import sys
from pathlib import Path

from support.waiting import wait_until

ROOT = Path(__file__).parents[2]


def test_the_demo_trains_eight_models_and_leaves_nothing_behind(tmp_path: Path) -> None:
    plain = {"PATH": os.defpath, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo.py")], env=plain, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "/login?once=" in done.stdout.partition("Running")[0]
    summary = done.stdout[done.stdout.rindex("JOB  NAME") :]
    assert summary.count("succeeded") == 8
    assert "schedulearn up --detach" in summary
    assert list(tmp_path.glob("schedulearn-demo-*")) == []
    wait_until(lambda: not _left(tmp_path), 60, "no process is left")


def _left(folder: Path) -> list[Path]:
    """Processes of it; those that supervise jobs end a moment after they have said so."""
    return [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in _words(p)]


def _words(cmdline: Path) -> bytes:
    try:
        return cmdline.read_bytes()
    except OSError:
        return b""
