"""`pull`: fetch the files of a job."""

from pathlib import Path
from typing import Annotated

import typer

from schedulearn.cli.common.out import say, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, Job, option, verb_app
from schedulearn.wire.clean import clean
from schedulearn.wire.words import size

app = verb_app()


@app.command()
def pull(
    job: Job,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A file or folder in the job's run folder; all if left out.")
    ] = None,
    to: Annotated[Path | None, option("DIR", "Where to put them. [default: ./job-JOB]")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch files from a job's run folder, also while it runs.

    \b
    Examples:
      schedulearn pull 17
      schedulearn pull 17 model.pt --to results
    """
    folder = to or Path(f"job-{job}")
    with connect() as client:
        client.job(job)  # says that there is no such job before a folder is made for it
        written = client.pull(job, path, folder)
    if as_json:
        say_json({"job": job, "to": str(folder), "files": [str(file) for file in written]})
        return
    if not written:
        say(f"Job {job} has no files there.")
        return
    total = sum(file.lstat().st_size for file in written)
    count = "1 file" if len(written) == 1 else f"{len(written)} files"
    say(f"Fetched {count} ({size(total)}) from job {job} to {clean(folder)}", "green")
    for file in written[:10]:
        say(f"  {clean(file)}")
    if len(written) > 10:
        say(f"  and {len(written) - 10} more")
