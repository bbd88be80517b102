"""Starts programs that use torch without the seconds that importing it takes: it imports it once, then forks.

Run as a process of its own. Each line of its input is a request, each line of its output the answer:
{"start": [program, argument…], "env": {…}, "output": file} gives a pid; {"poll": pid} an exit status or null.
"""

import json
import os
import runpy
import sys
import threading
from pathlib import Path

import torch


def serve() -> dict[str, str]:
    """Answers requests. Returns in a child, with what is to be run there."""
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            pid = os.fork()
            if pid == 0:
                return request
            answer = pid
        else:
            answer = status(request["poll"])
        print(json.dumps(answer), flush=True)
    sys.exit(0)


def status(pid: int) -> int | None:
    """As subprocess has it: minus the signal if one killed it."""
    found, code = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(code) if found else None


def become(request: dict[str, str]) -> None:
    with open(request["output"], "wb") as output, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(Path(request["output"]).parent)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = list(request["start"])


def warm_up() -> None:
    """Load what torch itself loads only when it is used for the first time."""
    parameter = torch.nn.Parameter(torch.ones(1))
    torch.optim.SGD([parameter]).step()


if __name__ == "__main__":
    warm_up()
    assert threading.active_count() == 1, "a fork would lose threads"
    job = serve()
    become(job)
    runpy.run_path(job["start"][0], run_name="__main__")
