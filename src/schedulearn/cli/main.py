"""The command `schedulearn`: finds the verb's file, runs it, turns errors into words and exit codes."""

import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from schedulearn import __version__
from schedulearn.cli.common.errors import EXIT_CODES, Code, Failure, show_failure
from schedulearn.cli.common.out import note

# A verb is the file of the same name; it is imported only when it is used. The text is what `--help` lists.
VERBS: dict[str, dict[str, str]] = {
    "Jobs": {
        "run": "Run a command as a job and follow it.",
        "submit": "Submit a job to the queue and return.",
        "ls": "List jobs.",
        "describe": "Show everything about a job: events, attempts, resource use.",
        "explain": "Explain why a job is waiting and when it may start.",
        "logs": "Show a job's output.",
        "wait": "Wait until jobs have finished.",
        "top": "Live view of nodes, queue and running jobs.",
        "pull": "Fetch a job's files.",
        "exec": "Run a command alongside a running job.",
        "update": "Change a job's priority, deadline, limits, workers or target.",
        "pause": "Suspend running jobs, or hold queued ones.",
        "resume": "Resume paused jobs.",
        "migrate": "Move a running job to another node.",
        "cancel": "Cancel jobs; their records and output are kept.",
        "rm": "Delete jobs, stopping them first if they run.",
        "notify": "Choose who is notified when your jobs end.",
    },
    "Simulation": {
        "simulate": "Replay a workload under a policy, in virtual time.",
        "compare": "Replay a workload under several policies and compare them.",
        "experiment": "Reproduce published experiments.",
    },
    "Service": {
        "up": "Start the service.",
        "down": "Stop the service; running jobs keep running.",
        "backup": "Back up the service's data to a file.",
        "restore": "Restore the service's data from a backup.",
    },
    "Administration": {
        "nodes": "List, add, label, drain and remove nodes.",
        "policy": "Show and set the scheduling policy.",
        "users": "List, add, change and remove users.",
        "tokens": "List, create and revoke tokens.",
        "audit": "Show the audit log.",
    },
}
_NAMES = [name for verbs in VERBS.values() for name in verbs]


class VerbGroup(TyperGroup):
    """Loads a verb's file when the verb is used, so that a quick verb does not pay for the others."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(_NAMES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _NAMES:
            return typer.main.get_command(importlib.import_module(f"schedulearn.cli.{cmd_name}").app)
        if ctx.resilient_parsing or cmd_name.startswith("-"):
            return None
        near = get_close_matches(cmd_name, _NAMES)
        raise Failure(
            f"no such command: {cmd_name!r}",
            hint=(f"did you mean: {', '.join(near)}?\n" if near else "") + "all commands: schedulearn --help",
        )

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:  # the reader has gone (`| head`): that is no error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Code.DONE

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        for title, verbs in VERBS.items():
            with formatter.section(title):
                formatter.write_dl(list(verbs.items()))


app = typer.Typer(cls=VerbGroup, name="schedulearn", rich_markup_mode=None, pretty_exceptions_enable=False)


def _show_version(value: bool) -> None:
    if value:
        print(f"schedulearn {__version__}")
        raise typer.Exit


@app.callback(
    epilog="\b\n" + EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
def schedulearn(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 # its callback does it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Queue, run and watch training jobs on shared machines.

    \b
    schedulearn up --detach             start the service on this machine
    schedulearn run -- python train.py  run a script from this folder as a job
    schedulearn top                     watch everything live

    SCHEDULEARN_URL and SCHEDULEARN_TOKEN say where the service is; on the machine where it runs, neither is needed.
    """
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is returned (and is the process's, through the entry point)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows no sparkline shows "?" instead of an error
    try:
        result = typer.main.get_command(app).main(args, prog_name="schedulearn", standalone_mode=False)
        return int(result or 0)
    except KeyboardInterrupt:
        return Code.INTERRUPTED
    except typer.Abort:
        note("aborted: nothing was changed")
        return Code.WRONG_USE
    except typer.TyperException as error:
        return _wrong_use(error)
    except Failure as failure:
        show_failure(failure)
        return failure.code
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    from schedulearn.cli.common.service import failure_of

    failure = failure_of(error)
    if failure is None:
        raise error
    show_failure(failure)
    return failure.code


def _wrong_use(error: typer.TyperException) -> int:
    """Typer's own errors in our words: the message, then where to read more."""
    context: Any = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".").replace("Value error, ", "").replace("Input should", "it should")
    path = context.command_path if context is not None else "schedulearn"
    show_failure(Failure(message[:1].lower() + message[1:], hint=f"usage: {path} --help"))
    return Code.WRONG_USE


if __name__ == "__main__":
    sys.exit(main())
