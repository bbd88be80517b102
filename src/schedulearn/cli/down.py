"""`down`: stop the service."""

import os
import select
import signal
from typing import Annotated

from schedulearn.cli.common.data import PAGE, Data, data_folder, service_processes
from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.out import next_steps, say, say_json
from schedulearn.cli.common.verb import AsJson, option, verb_app

app = verb_app()


@app.command()
def down(
    data: Data = None,
    timeout: Annotated[float, option("SECONDS", "How long to wait for it to end.", min=0)] = 30.0,
    as_json: AsJson = False,
) -> int:
    """Stop the service (and a standalone page) of this data folder. Jobs keep running; the next `up` adopts them.

    \b
    Example:
      schedulearn down
    """
    folder = data_folder(data)
    processes = service_processes(folder)
    for pid in processes:
        _stop(pid, timeout)
    if as_json:
        say_json({"data": str(folder), "stopped": sorted(processes)})
        return Code.DONE
    if not processes:
        say(f"No service runs on {folder}.")
        return Code.DONE
    for pid, role in processes.items():
        say(f"The {role} (pid {pid}) {'have' if ' and ' in role else 'has'} stopped.", "green")
    if set(processes.values()) != {PAGE}:
        say("Running jobs keep running; the next start adopts them.")
        next_steps({"start it again": f"schedulearn up --detach --data {folder}"})
    return Code.DONE


def _stop(pid: int, timeout: float) -> None:
    """SIGTERM, then wait for the end. A pidfd names this very process, even if its number is given out again."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        if not poll.poll(1000 * timeout):
            raise Failure(
                f"the service (pid {pid}) has not ended after {timeout:g} seconds",
                Code.UNREACHABLE,
                hint=f"wait longer with --timeout, or kill it: kill -9 {pid} (running jobs keep running)",
            )
    except ProcessLookupError:
        return
    except PermissionError:
        raise Failure(f"the service (pid {pid}) belongs to another user", hint="run this as that user") from None
    finally:
        os.close(process)
