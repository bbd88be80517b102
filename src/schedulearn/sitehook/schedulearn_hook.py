"""Two import hooks: one notices numeric libraries, the other gives `schedulearn.job` where it is not installed.

This is imported at the start of every Python program of a job, so it imports next to nothing itself.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would be slow
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

NUMERIC = ("numpy", "torch", "tensorflow")  # one of these comes before any pool of threads that could be adjusted
CHOSEN = "SCHEDULEARN_THREADS"  # the number that the executor chose; empty: none
OWN = ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # never set by the executor


def install(folder: str) -> None:
    sys.meta_path.append(Library(os.path.join(folder, "library")))
    if may_choose(os.environ):
        sys.meta_path.insert(0, Watch())


def may_choose(env: Mapping[str, str]) -> bool:
    """Whether only the executor has said how many threads there should be."""
    return CHOSEN in env and env.get("OMP_NUM_THREADS", "") == env[CHOSEN] and not any(env.get(name) for name in OWN)


class Watch:
    """A finder that finds nothing itself, but is told when a numeric library is imported."""

    def __init__(self) -> None:
        self.awaited = set(NUMERIC)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.awaited:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self or not hasattr(finder, "find_spec") else finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Telling(spec.loader, self)  # type: ignore[assignment]
                return spec
        return None


class Telling:
    """Loads a module as its own loader does, and says so before and after."""

    def __init__(self, loader: Any, watch: Watch) -> None:
        self._loader, self._watch = loader, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        self._watch.awaited.discard(name)
        if module.__spec__:
            module.__spec__.loader = self._loader  # from now on there is no sign of us
        module.__loader__ = self._loader
        _tell("loading", name)
        self._loader.exec_module(module)
        _tell("loaded", name)


def _tell(what: str, name: str) -> None:
    try:
        getattr(__import__("schedulearn_threads"), what)(name)
    except Exception:  # the program has no use for threads that follow if it does not run
        pass


class Library:
    """The last finder: gives the executor's copy of the library in a job if there is no other."""

    def __init__(self, folder: str) -> None:
        package = [os.path.join(folder, "schedulearn")]
        self._places = {"schedulearn": [folder], "schedulearn.job": package, "schedulearn.pinned": package}

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if name not in self._places:
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, self._places[name], target)
