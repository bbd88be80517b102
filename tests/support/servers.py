"""A service with several servers, each an engine of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.base_image import IMAGE
from support.service import Service


@contextmanager
def with_servers(data: Path, daemons: Any, names: Sequence[str]) -> Iterator[Service]:
    """It runs, and has added a server of each of these names: engine 0, engine 1 and so on."""
    with Service(data) as running:
        for number, name in enumerate(names):
            added = running.cli("nodes", "add", daemons(number).address, "--name", name, "--image", IMAGE)
            assert added.returncode == 0, added.stderr
        yield running
    daemons.clean()
