"""`backup`: the service's data as one file."""

import time
from pathlib import Path
from typing import Annotated

import typer

from schedulearn.cli.common.data import Data, data_folder, server_errors
from schedulearn.cli.common.out import answer
from schedulearn.cli.common.verb import AsJson, verb_app
from schedulearn.wire.words import size

app = verb_app()


@app.command()
def backup(
    to: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The backup file; default: named by the date.")
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Back up the service's data to a file, also while the service runs. The file holds secrets: keep it safe.

    \b
    Examples:
      schedulearn backup
      schedulearn backup /mnt/backups/schedulearn.tar.gz --data /srv/schedulearn
    """
    from schedulearn.service.upkeep import backup as server

    folder = data_folder(data)
    file = to or Path(f"schedulearn-{time.strftime('%Y-%m-%d-%H%M%S')}.tar.gz")
    with server_errors():
        server.backup(folder, file)
    taken = file.stat().st_size
    words = f"Backed up {folder} to {file} ({size(taken)})."
    made = {"data": str(folder), "file": str(file), "bytes": taken}
    answer(made, as_json, words, "green", {"restore it": f"schedulearn restore {file} --data NEW_FOLDER"})
