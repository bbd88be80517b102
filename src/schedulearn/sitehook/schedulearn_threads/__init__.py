"""Pools of threads that follow the CPU limit while a program runs: torch, OpenMP, MKL, OpenBLAS, BLIS.

`schedulearn_hook` imports this with the first numeric library, and says `loading` and `loaded` of each. `at_step` is
for what knows the steps of the training: torch's optimisers call it by themselves, `schedulearn.job` does, too.
"""

from __future__ import annotations

import os
import sys

from .follower import Follower
from .limit import Limit, renew_environment

_follower = Follower(Limit(os.environ.get("SCHEDULEARN_CONTROL", "")), os.environ.get("SCHEDULEARN_ACK", ""))


def loading(name: str) -> None:  # noqa: ARG001 (the same for all of them)
    """What the environment says may be old: a shell that began under another limit may have started this program."""
    renew_environment(os.environ, _follower.limit.threads())


def loaded(name: str) -> None:
    _follower.add(name, sys.modules[name])


def at_step() -> None:
    """Between two steps of the training, in the thread that trains."""
    _follower.at_step()
