"""`users`: who may use the service."""

from typing import Annotated, Any, Literal

import typer

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.out import answer, answer_table, next_steps, note, say, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, option, parameter, verb_app, with_options
from schedulearn.cli.view.table import Cell, Column
from schedulearn.wire.words import Json

app = verb_app()
COLUMNS = (
    Column("NAME", lambda user: Cell(user["name"], "bold"), flex=True),
    Column("ROLE", lambda user: user["role"]),
    Column("JOBS RUN AS", lambda user: _runs_as(user), flex=True),
    Column("GID", lambda user: _shown(user.get("gid")), right=True, need=70),
    Column("MAX PRIORITY", lambda user: _shown(user.get("max_priority")), right=True),
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
_SETTINGS: dict[str, Any] = {
    "role": Annotated[
        Literal["admin", "user"] | None, option("admin|user", "An admin may change all jobs and settings.")
    ],
    "uid": Annotated[int | None, option("N", "Jobs run as this account of the machine, 1000 or above.", min=1000)],
    "gid": Annotated[int | None, option("N", "Jobs run in this group of the machine.", min=1000)],
    "root": Annotated[
        bool | None, typer.Option("--root/--no-root", help="Plain processes of this user run as root, with all rights.")
    ],
    "max_priority": Annotated[
        int | None, option("0..100", "The highest priority this user may ask for.", min=0, max=100)
    ],
}
_with_settings = with_options([parameter(name, annotation) for name, annotation in _SETTINGS.items()])


@app.callback(invoke_without_command=True)
def users(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List, add, change and remove users.

    \b
    Examples:
      schedulearn users
      schedulearn users add ann --max-priority 70
      schedulearn tokens create --user ann
    """
    if ctx.invoked_subcommand is None:
        list_(as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List users (the same as `schedulearn users`)."""
    with connect() as client:
        answer_table(COLUMNS, client.users(), as_json)


@app.command()
@_with_settings
def add(name: Name, as_json: AsJson = False, **given: Any) -> None:
    """Add a user.

    \b
    Example:
      schedulearn users add ann --uid 1001 --gid 1001 --max-priority 70
    """
    with connect() as client:
        user = client.add_user(name, **{**given, "role": given["role"] or "user", "root": bool(given["root"])})
    _say(user, "added", as_json)


@app.command()
@_with_settings
def update(name: Name, as_json: AsJson = False, **given: Any) -> None:
    """Change a user; options left out stay as they are.

    \b
    Example:
      schedulearn users update ann --role admin
    """
    changes = {key: value for key, value in given.items() if value is not None}
    if not changes:
        raise Failure("nothing to change", allowed=", ".join("--" + name.replace("_", "-") for name in _SETTINGS))
    with connect() as client:
        user = client.update_user(name, **changes)
    _say(user, "updated", as_json)


@app.command()
def remove(name: Name, as_json: AsJson = False) -> None:
    """Remove a user and the user's tokens.

    \b
    Example:
      schedulearn users remove ann
    """
    with connect() as client:
        client.remove_user(name)
    answer({"removed": name}, as_json, f"User {name} removed.")


def _shown(value: object) -> str:
    return "" if value is None else str(value)


def _runs_as(user: Json) -> Cell:
    words = str(user.get("runs_as") or "")
    return Cell(words, "red" if words == "root" else "")


def _say(user: Json, what: str, as_json: bool) -> None:
    if as_json:
        say_json(user)
        return
    say(f"User {user['name']} ({user['role']}) {what}; jobs run as {user['runs_as']}.", "green")
    for words in user["notes"]:
        note(f"Warning: {words}", "yellow")
    next_steps({"create a token": f"schedulearn tokens create --user {user['name']}"})
