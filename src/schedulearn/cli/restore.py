"""`restore`: the service's data back from a file."""

from pathlib import Path
from typing import Annotated

import typer

from schedulearn.cli.common.data import Data, data_folder, server_errors
from schedulearn.cli.common.out import answer
from schedulearn.cli.common.verb import AsJson, verb_app

app = verb_app()


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `schedulearn backup` made.")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Restore the service's data from a backup, into a folder that is empty or new.

    \b
    Example:
      schedulearn restore schedulearn-2026-03-01.tar.gz --data /srv/schedulearn
    """
    from schedulearn.service.upkeep import backup as server

    folder = data_folder(data)
    with server_errors():
        server.restore(file, folder)
    steps = {"start the service": f"schedulearn up --detach --data {folder}"}
    answer({"data": str(folder), "file": str(file)}, as_json, f"Restored {file} to {folder}.", "green", steps)
