"""`nodes`: the machines that run jobs."""

from typing import Annotated

import typer

from schedulearn.cli.common.out import next_steps, say, say_facts, say_json, say_table
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, verb_app
from schedulearn.cli.view import nodes as view
from schedulearn.cli.view.words import Json

app = verb_app()
Name = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")]


@app.callback(invoke_without_command=True)
def nodes(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show the nodes: what they have, what is in use, what the storage takes. Drain and undrain them.

    \b
    Examples:
      schedulearn nodes
      schedulearn nodes drain local
      schedulearn nodes undrain local
    """
    if ctx.invoked_subcommand is None:
        list_(as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show the nodes (the same as `schedulearn nodes`)."""
    with connect() as client:
        found: list[Json] = list(client.nodes())
    if as_json:
        say_json(found)
        return
    if not found:
        say("There are no nodes: no scheduler has run on this data folder yet.")
        next_steps({"start one": "schedulearn up"})
        return
    say_table(view.COLUMNS, view.rows(found))
    devices = view.device_rows(found)
    if devices:
        say()
        say_table(view.DEVICE_COLUMNS, devices)
    storage = {node["name"]: view.storage_words(node.get("storage")) for node in found}
    if any(storage.values()):
        say()
        say_facts([(f"Storage of {name}", words) for name, words in storage.items()])


@app.command()
def drain(node: Name, as_json: AsJson = False) -> None:
    """Let a node finish what it runs and take nothing new.

    \b
    Example:
      schedulearn nodes drain local
    """
    _drain(node, True, as_json)


@app.command()
def undrain(node: Name, as_json: AsJson = False) -> None:
    """Let a drained node take jobs again.

    \b
    Example:
      schedulearn nodes undrain local
    """
    _drain(node, False, as_json)


def _drain(node: str, drain: bool, as_json: bool) -> None:
    with connect() as client:
        answer = client.drain(node, drain)
    if as_json:
        say_json(answer)
    elif drain:
        say(f"Node {node} finishes what it runs and takes nothing new.")
        next_steps({"what still runs": "schedulearn nodes", "take jobs again": f"schedulearn nodes undrain {node}"})
    else:
        say(f"Node {node} takes jobs again.")
        next_steps({"all nodes": "schedulearn nodes"})
