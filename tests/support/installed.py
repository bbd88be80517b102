"""What tests need of Python's packages: looked for without loading it, which takes seconds. Jobs do that themselves."""

from importlib.util import find_spec

import pytest


def needs(package: str) -> None:
    """Skip the test, or at the top of a file all of its tests, where the package is not installed."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)
