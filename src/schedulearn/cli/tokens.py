"""`tokens`: how users authenticate."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from schedulearn.cli.common.out import answer, answer_table, next_steps, note, say, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, option, verb_app
from schedulearn.cli.view.table import Cell, Column
from schedulearn.pinned import without_pin
from schedulearn.wire.words import clock

app = verb_app()
User = Annotated[str | None, option("NAME", "The token's user; others than you need an administrator. [default: you]")]


@app.callback(invoke_without_command=True)
def tokens(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List, create and revoke tokens, and log in to the web page. You see your own; an administrator sees all.

    \b
    Examples:
      schedulearn tokens
      schedulearn tokens create --label laptop
      schedulearn tokens link
      schedulearn tokens revoke 3
    """
    if ctx.invoked_subcommand is None:
        list_(as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List tokens (the same as `schedulearn tokens`)."""
    now = datetime.now(UTC)
    columns = (
        Column("ID", lambda token: Cell(str(token["id"]), "bold"), right=True),
        Column("USER", lambda token: token["user"], flex=True),
        Column("LABEL", lambda token: token.get("label") or "", flex=True),
        Column("CREATED", lambda token: clock(token.get("created_at"), now)),
        # A log-in to the page ends some time after it was used last, other tokens never.
        Column("EXPIRES", lambda token: clock(token.get("expires_at"), now) or "never", need=60),
    )
    with connect() as client:
        answer_table(columns, client.tokens(), as_json)


@app.command()
def create(
    user: User = None,
    label: Annotated[str, option("TEXT", "What it is for.")] = "made on the command line",
    as_json: AsJson = False,
) -> None:
    """Create a token. It is shown only once.

    \b
    Example:
      schedulearn tokens create --user ann --label laptop
    """
    with connect() as client:
        made = client.add_token(label, user)
        url = client.url
    if as_json:
        say_json(made)
        return
    say(f"token: {made['token']}", "green")
    note(f"It belongs to {made['user']} and is shown only this once.")
    next_steps(
        {
            "use it": f"export SCHEDULEARN_URL={url} SCHEDULEARN_TOKEN={made['token']}",
            "revoke it": f"schedulearn tokens revoke {made['id']}",
        }
    )


@app.command()
def link(
    user: User = None,
    page: Annotated[str, option("URL", "The page's address, if it is not the service's.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print a one-time login link to the web page.

    \b
    Example:
      schedulearn tokens link
    """
    with connect() as client:
        made = client.login_code(user)
        address = f"{without_pin(page or client.url)}/login?once={made['code']}"
    if as_json:
        say_json({"link": address, "user": made["user"], "expires_at": made["expires_at"]})
        return
    say(address, "green")
    note(f"It logs {made['user']} in once, within twelve hours.")


@app.command()
def revoke(
    token: Annotated[int, typer.Argument(metavar="ID", help="The token's id.", min=1)], as_json: AsJson = False
) -> None:
    """Revoke a token: it is no longer accepted.

    \b
    Example:
      schedulearn tokens revoke 3
    """
    with connect() as client:
        client.revoke_token(token)
    answer({"revoked": token}, as_json, f"Token {token} revoked.")
