"""Bars that show how far a long calculation is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bars(unit: str, total: int) -> Iterator[Callable[[str, float], None]]:
    """What comes out is told a name and how much of its total is done: a bar for each name, on a terminal alone."""
    if not sys.stderr.isatty():
        yield lambda _name, _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    count = TextColumn("{task.completed:,.0f}/{task.total:,} " + unit)
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def told(name: str, done: float) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total)
            progress.update(tasks[name], completed=done)

        yield told
