"""The pools of threads of libraries that are loaded: how many threads each has, and how that is changed."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Union

    Found = tuple[str, Callable[[], Union["Pool", None]]]  # the file of a library, and how its pool is made

# What a library is called, and its functions; builds of OpenBLAS add something before or after their names.
_BLAS = (
    ("openblas", "openblas_get_num_threads", "openblas_set_num_threads"),
    ("mkl_rt", "MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("blis", "bli_thread_get_num_threads", "bli_thread_set_num_threads"),
)
_OPENMP = ("libgomp", "libiomp", "libomp")
_AROUND = (("", ""), ("", "64_"), ("scipy_", ""), ("scipy_", "64_"), ("", "_64"))


class Pool:
    """One of them. A number that we did not set is the program's own choice, and stays as it is."""

    def __init__(self, get: Callable[[], int], put: Callable[[int], object], *, bound: bool) -> None:
        self._get, self._put = get, put
        self.bound = bound  # does each thread of the program have a number of its own?
        self.first = self.number = get()  # as it was found; as it was last seen
        self._ours = {self.first}

    def follow(self, wanted: int | None) -> None:
        """Have so many threads (None: as many as at first). Of a bound one: for the thread that calls this."""
        target = self.first if wanted is None else wanted
        self.number = self._get()
        # Any of our numbers may come back: when a block ends that wanted fewer, or in a thread that we had not seen.
        if self.number != target and self.number in self._ours:
            self._ours.add(target)
            self._put(target)
            self.number = target


class Pools:
    """All that were found so far."""

    def __init__(self) -> None:
        self.all: list[Pool] = []
        self._known: set[str] = set()  # files of libraries
        self._modules = 0  # how many modules were loaded at the last search

    @property
    def bound(self) -> list[Pool]:
        return [pool for pool in self.all if pool.bound]

    def add_torch(self, torch: Any) -> None:
        self.all.insert(0, Pool(torch.get_num_threads, torch.set_num_threads, bound=True))

    def search(self) -> bool:
        """Look for libraries that were loaded since; whether there is a new bound one."""
        if len(sys.modules) == self._modules:
            return False
        self._modules = len(sys.modules)
        fresh = list(self._new())
        self.all += fresh
        return any(pool.bound for pool in fresh)

    def _new(self) -> Iterator[Pool]:
        threadpoolctl = sys.modules.get("threadpoolctl")
        found = _by_threadpoolctl(threadpoolctl) if threadpoolctl else _by_name()
        for path, make in found:
            if path not in self._known:
                self._known.add(path)
                pool = make()
                if pool is not None:
                    yield pool


def _by_threadpoolctl(module: Any) -> Iterator[Found]:
    """It knows more libraries than we do."""
    for library in module.ThreadpoolController().lib_controllers:
        bound = library.user_api == "openmp"
        make = partial(Pool, library.get_num_threads, library.set_num_threads, bound=bound)
        yield os.path.realpath(library.filepath), make


def _by_name() -> Iterator[Found]:
    for path in _mapped():
        name = os.path.basename(path)
        for part, get, put in _BLAS:
            if part in name:
                yield path, partial(_pool, path, get, put, bound=False)
        if name.startswith(_OPENMP):
            yield path, partial(_pool, path, "omp_get_max_threads", "omp_set_num_threads", bound=True)


def _mapped() -> set[str]:
    """The files of all libraries in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        names = {line[line.index("/") :].rstrip("\n") for line in file if "/" in line and ".so" in line}
    return {os.path.realpath(name) for name in names}


def _pool(path: str, get: str, put: str, *, bound: bool) -> Pool | None:
    """None: it has no such functions."""
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD)  # only what is there already
    except OSError:
        return None
    for before, after in _AROUND:
        getter, setter = (getattr(library, before + name + after, None) for name in (get, put))
        if getter and setter:
            return Pool(getter, setter, bound=bound)
    return None
