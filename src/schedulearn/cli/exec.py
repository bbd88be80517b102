"""`exec`: run a command beside a job."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.out import JobOutput, note, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, Job, Raw, option, verb_app

if TYPE_CHECKING:
    from schedulearn.client import Running

app = verb_app()


@app.command("exec")
def exec_beside(
    job: Job,
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="What to run.")] = None,
    worker: Annotated[int, option("RANK", "Which worker to run next to.", min=0)] = 0,
    raw: Raw = False,
    as_json: AsJson = False,
) -> int:
    """Run a command alongside a running job, and show its output.

    It runs where the job runs: as the same user, in the run folder, with the job's environment and limits, in its
    container if it has one. Its standard input is empty, and no shell takes part. It ends with the job, and Ctrl-C ends
    it. Its exit code becomes that of this verb; errors of the verb itself are told on standard error.

    \b
    Examples:
      schedulearn exec 17 -- nvidia-smi
      schedulearn exec 17 --worker 1 -- sh -c 'ls -l; tail train.log'
    """
    if not command:
        raise Failure("no command given", hint=f"write it after --: schedulearn exec {job} -- ls -l")
    with connect() as client:
        if client.job(job)["state"] == "paused":
            note(f"job {job} is paused: its processes are stopped meanwhile")
        with client.exec(job, command, worker) as running:
            return _collect(running, job, worker) if as_json else _show(running, raw)


def _show(running: "Running", raw: bool) -> int:
    from schedulearn.client import STDERR, STDOUT

    outputs = {STDOUT: JobOutput(sys.stdout, raw), STDERR: JobOutput(sys.stderr, raw)}
    try:
        for stream, data in running:
            outputs[stream].write(data)
    finally:
        for output in outputs.values():
            output.close()
    return running.exit_code or 0


def _collect(running: "Running", job: int, worker: int) -> int:
    from schedulearn.client import STDERR, STDOUT

    written = {STDOUT: b"", STDERR: b""}
    for stream, data in running:
        written[stream] += data
    texts = {stream: data.decode("utf-8", "replace") for stream, data in written.items()}
    answer = {"job": job, "worker": worker, "exit_code": running.exit_code}
    say_json({**answer, "stdout": texts[STDOUT], "stderr": texts[STDERR]})
    return running.exit_code or 0
