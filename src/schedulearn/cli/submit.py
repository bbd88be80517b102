"""`submit`: put a job into the queue, from a file, from stdin, or from options and a command."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.job_options import with_job_options
from schedulearn.cli.common.out import next_steps, note, note_hint, of_job, say, say_json
from schedulearn.cli.common.service import ask_again, connect
from schedulearn.cli.common.verb import HELP, AsJson, option, verb_app
from schedulearn.wire import types
from schedulearn.wire.drafts import Spec, plain_values, spec_of
from schedulearn.wire.words import Json

if TYPE_CHECKING:
    from schedulearn.client import Client

app = verb_app()
Key = Annotated[
    str,
    option("KEY", "Do not submit again if a job was submitted with this key. [default: a new one]", "--key"),
]
_COMMAND = "schedulearn.command"  # where the words after `--` are kept


class TakesCommand(TyperCommand):
    """Everything after the first `--` is the job's command; options and a file come before it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])


@app.command(cls=TakesCommand, context_settings=HELP, options_metavar="[OPTIONS]")
@with_job_options
def submit(
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE | -- COMMAND", help="A YAML or JSON file; - reads it from stdin."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only validate it and show what would be submitted.")
    ] = False,
    key: Key = "",
    as_json: AsJson = False,
    **given: Any,
) -> int:
    """Submit a job to the queue and return.

    The job comes from a file, from stdin (-), or from the command after --. Options override the file.
    The folder to copy (workdir) is relative to the current folder, not to the file.

    \b
    Examples:
      schedulearn submit job.yaml
      schedulearn submit job.yaml --priority 80 --env LR=0.01
      schedulearn submit --name mnist --cpus 0.5..4 -- python train.py
      echo '{"command": "python train.py"}' | schedulearn submit -
    """
    command: list[str] = ctx.meta.get(_COMMAND) or []
    spec = spec_of(given, command, _base(files or [], command))
    if not spec.get("command") and not spec.get("image"):
        raise Failure(
            "a command or an image is needed",
            field="command",
            hint="schedulearn submit -- python train.py\nschedulearn submit job.yaml",
        )
    with connect() as client:
        if dry_run:
            return _say_checked(client.check(spec), as_json)
        return say_submitted(submit_once(client, spec, key), as_json)


def submit_once(client: "Client", spec: Spec, key: str) -> Json:
    """With the key, or a new one. Whoever does not wait for the answer is told how to ask for it again."""
    from schedulearn.client import new_key

    key = key or new_key()
    try:
        return client.submit(spec, key=key)
    except KeyboardInterrupt:
        note(f"The job may have been submitted; {ask_again(key)}.")
        raise


def say_submitted(job: Json, as_json: bool) -> int:
    if as_json:
        say_json(job)
        return Code.DONE
    say(f"{of_job(job)} submitted: {job['state']}.", "green")
    note_hint(job)
    number = job["id"]
    next_steps(
        {
            "follow the output": f"schedulearn logs {number} -f",
            "why it waits": f"schedulearn explain {number}",
            "wait for it to end": f"schedulearn wait {number}",
            "cancel it": f"schedulearn cancel {number}",
        }
    )
    return Code.DONE


def _say_checked(checked: types.Checked, as_json: bool) -> int:
    if not as_json:
        say("The job is valid. It would be submitted as:", "green")
    say_json(checked if as_json else checked["spec"])
    return Code.DONE


def _base(files: list[str], command: list[str]) -> Spec:
    if not files:
        return {}
    if len(files) > 1:
        raise Failure(
            f"expected one file, got {len(files)}: {' '.join(files)}",
            hint=f"is it a command? Then write: schedulearn submit -- {' '.join([*files, *command])}",
        )
    return read_spec(files[0])


def read_spec(name: str) -> Spec:
    """The spec in a YAML or JSON file; `-` is stdin."""
    if name == "-":
        return parse_spec(sys.stdin.read(), "stdin")
    path = Path(name)
    try:
        return parse_spec(path.read_text(encoding="utf-8"), name)
    except FileNotFoundError:
        hint = f"is it a command? Then write: schedulearn submit -- {name}"
        raise Failure(f"there is no file {name!r}", field="FILE", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise Failure(f"cannot read {name!r}: {reason}", field="FILE") from None


def parse_spec(text: str, source: str) -> Spec:
    """JSON is tried first: it is quick, and its numbers are what they look like."""
    import json

    try:
        value = json.loads(text)
    except ValueError:
        value = _parse_yaml(text, source)
    if not isinstance(value, Mapping):
        kind = "nothing" if value is None else f"a {type(value).__name__}"
        raise Failure(
            f"{source} holds {kind}, not a job",
            field="FILE",
            allowed="fields of a job, at least: command: python train.py",
        )
    return dict(plain_values(value))


def _parse_yaml(text: str, source: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise Failure(f"{source}{where}: {problem}", field="FILE", allowed="YAML or JSON") from None
