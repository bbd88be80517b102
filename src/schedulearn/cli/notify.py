"""`notify`: who is notified when jobs end."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from schedulearn.cli.common.out import answer, next_steps, say, say_facts, say_json, say_table
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, option, verb_app
from schedulearn.cli.view.table import Cell, Column, rows_of
from schedulearn.wire import types
from schedulearn.wire.clean import clean
from schedulearn.wire.words import clock

app = verb_app()
STYLES = {"sent": "green", "waiting": "yellow", "given up": "red"}
User = Annotated[str | None, option("NAME", "Another user's settings (administrators only).")]


@app.callback(invoke_without_command=True)
def notify(ctx: typer.Context, user: User = None, as_json: AsJson = False) -> None:
    """Choose who is notified when your jobs end: web addresses (signed webhooks) and e-mail addresses.

    \b
    Examples:
      schedulearn notify
      schedulearn notify set ann@example.org
      schedulearn notify set failed:ann@example.org https://hooks.example.org/ann
      schedulearn notify test
    """
    if ctx.invoked_subcommand is None:
        show(user, as_json)


@app.command()
def show(user: User = None, as_json: AsJson = False) -> None:
    """Show the addresses and the latest notices (the same as `schedulearn notify`)."""
    with connect() as client:
        settings = client.notify(user)
    if as_json:
        say_json(settings)
    else:
        _say(settings)


@app.command("set")
def set_(
    address: Annotated[
        list[str],
        typer.Argument(metavar="ADDRESS", help="https://…, or an e-mail address; failed:ADDRESS for failures only."),
    ],
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Notify these addresses of the end of every job, instead of the previous ones.

    \b
    Examples:
      schedulearn notify set ann@example.org
      schedulearn notify set ann@example.org --user ann
    """
    _change(address, user, as_json)


@app.command()
def clear(user: User = None, as_json: AsJson = False) -> None:
    """Remove all addresses; jobs with addresses of their own still notify those.

    \b
    Example:
      schedulearn notify clear
    """
    _change([], user, as_json)


@app.command()
def secret(
    new: Annotated[bool, typer.Option("--new", help="Make a new one; the old one is no longer used.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the secret with which your webhooks are signed.

    \b
    Example:
      schedulearn notify secret
    """
    with connect() as client:
        known = client.notify_secret(new)
    answer({"secret": known}, as_json, known)


@app.command("test")
def send_test(as_json: AsJson = False) -> None:
    """Send a test notice to all your addresses.

    \b
    Example:
      schedulearn notify test
    """
    with connect() as client:
        count = client.test_notify()
    words = f"A test is on its way to {count} address{'' if count == 1 else 'es'}."
    steps = {"see what became of it": "schedulearn notify"} if count else {"name one": "schedulearn notify set …"}
    answer({"addresses": count}, as_json, words, steps=steps)


def _change(addresses: list[str], user: str | None, as_json: bool) -> None:
    with connect() as client:
        settings = client.set_notify(addresses, user)
    told = clean(", ".join(settings["addresses"]))
    words = f"When a job of {settings['user']} ends, {f'{told} will be notified' if told else 'no one is notified'}."
    steps = {"try it": "schedulearn notify test"} if addresses and user is None else {}
    answer(settings, as_json, words, "green", steps)


def _say(settings: types.Notify) -> None:
    rules = ", ".join(clean(rule) for rule in settings["allowed"])
    say_facts(
        [
            ("user", clean(settings["user"])),
            ("notified", ", ".join(clean(a) for a in settings["addresses"]) or "none"),
            ("set for you", ", ".join(clean(a) for a in settings["given"])),
            ("allowed for all", rules or "none; an administrator can allow some: up --allow-notify"),
            ("e-mail", "yes" if settings["mail"] else "no: the service was started without --mail-command"),
        ]
    )
    if settings["notices"]:
        now = datetime.now(UTC)
        say()
        columns = (
            Column("CREATED", lambda one: clock(one["created_at"], now)),
            Column("STATE", lambda one: Cell(one["state"], STYLES.get(one["state"], ""))),
            Column("TRIES", lambda one: str(one["tries"]), right=True, need=70),
            Column("TO", lambda one: one["address"], flex=True),
            Column("NOTICE", lambda one: one["text"], flex=True),
            Column("PROBLEM", lambda one: one["problem"], flex=True, wrap=True, need=100),
        )
        say_table(columns, rows_of(columns, settings["notices"]))
    say()
    next_steps({"change it": "schedulearn notify set ADDRESS…", "for one job": "schedulearn run --notify ADDRESS -- …"})
