"""The same examples everywhere.

Besides chance, Hypothesis draws from the constants that it finds in our modules: in all that happen to be loaded, and
that depends on which tests ran before, and in which process. `derandomize` alone therefore does not make two runs
alike. Here the pool is that of named packages, loaded or not.
"""

import pkgutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants, constants_from_module


@contextmanager
def constants_of(*packages: str) -> Iterator[None]:
    """Examples are drawn from the constants of all modules of these packages, and of no others."""
    pool = _sorted(constant for module in _modules(packages) for constant in constants_from_module(module))
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        with patch.object(providers, "_get_local_constants", lambda: pool):
            yield
    finally:
        providers.CONSTANTS_CACHE.cache.clear()


def _modules(packages: tuple[str, ...]) -> Iterator[Any]:
    for package in map(import_module, packages):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield import_module(found.name)


def _sorted(constants: Iterable[Any]) -> Constants:
    """Their order counts as well."""
    pool = Constants(
        integers=providers.SortedSet(),
        floats=providers.SortedSet(key=providers.float_to_int),
        bytes=providers.SortedSet(),
        strings=providers.SortedSet(),
    )
    for constant in constants:
        pool.add(constant)
    return pool
