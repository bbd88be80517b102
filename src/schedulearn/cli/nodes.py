"""`nodes`: the machines that run jobs."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.out import answer, next_steps, note, say, say_facts, say_json, say_table
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, option, verb_app
from schedulearn.cli.view import nodes as view
from schedulearn.cli.view.table import rows_of
from schedulearn.wire.clean import clean
from schedulearn.wire.words import Json, size

app = verb_app()
Name = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")]
_PATIENCE = 120.0  # seconds: the service tells sooner what it waits for


@app.callback(invoke_without_command=True)
def nodes(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show the nodes: capacity, use and jobs. Add, label, drain and remove servers.

    \b
    Examples:
      schedulearn nodes
      schedulearn nodes add ssh://gpu2 --image pytorch/pytorch --gpu-type A100
      schedulearn nodes drain gpu2
      schedulearn nodes remove gpu2
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
    columns = view.node_columns()
    say_table(columns, rows_of(columns, found))
    for columns, things in (
        (view.server_columns(datetime.now(UTC)), view.servers(found)),
        (view.DEVICE_COLUMNS, view.devices(found)),
    ):
        if things:
            say()
            say_table(columns, rows_of(columns, things))
    _say_of_nodes("CPU", {node["name"]: view.sharing_words(node.get("sharing")) for node in found})
    _say_of_nodes("Isolation", {node["name"]: clean("; ".join(node.get("isolation") or ())) for node in found})
    _say_of_nodes("Storage", {node["name"]: view.storage_words(node.get("storage")) for node in found})


def _say_of_nodes(title: str, words: dict[str, str]) -> None:
    """A line for each node of which there is something to say."""
    if any(words.values()):
        say()
        say_facts([(f"{title} of {name}", said) for name, said in words.items()])


@app.command()
def add(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="ssh://USER@HOST, tcp://HOST:2376 (with TLS) or unix://PATH.")
    ],
    name: Annotated[str | None, option("NAME", "Its name. [default: its host]")] = None,
    image: Annotated[str | None, option("IMAGE", "For jobs that name none.")] = None,
    label: Annotated[list[str] | None, option("KEY=VALUE", "A label; may be repeated.")] = None,
    gpu_type: Annotated[str | None, option("TYPE", "The name of its GPU model, for a job's gpu_type.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add a server with a Docker Engine. The service checks it first, and says why if it cannot be used.

    \b
    Examples:
      schedulearn nodes add ssh://gpu2 --image pytorch/pytorch --gpu-type A100
      schedulearn nodes add tcp://10.0.0.3:2376 --name gpu3 --label room=b12
      schedulearn nodes add unix:///var/run/docker.sock --name here
    """
    labels = {key: value for key, value in _labels(label or []).items() if value is not None}
    with connect(timeout=_PATIENCE) as client:
        added = client.add_node(address, name, image, gpu_type, labels)
    if as_json:
        say_json(added)
        return
    say(f"Node {added['name']} ({clean(added['version'])}) added: {_has(added)}.", "green")
    for words in added["notes"]:
        note(f"Note: {clean(words)}", "yellow")
    next_steps({"all nodes": "schedulearn nodes", "remove it": f"schedulearn nodes remove {added['name']}"})


@app.command()
def remove(
    node: Name,
    force: Annotated[bool, typer.Option("--force", help="Stop the jobs there and queue them again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a server. Refused while jobs run there, unless --force is given.

    \b
    Examples:
      schedulearn nodes remove gpu2
      schedulearn nodes remove gpu2 --force
    """
    with connect() as client:
        removed = client.remove_node(node, force)
    jobs = ", ".join(str(job) for job in removed["jobs"])
    words = f"Node {node} will be removed once its jobs have stopped ({jobs})." if jobs else f"Node {node} removed."
    answer(removed, as_json, words, steps={"all nodes": "schedulearn nodes"})


@app.command()
def label(
    node: Name,
    labels: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE", help="Labels to set; `KEY=` removes one."),
    ],
    as_json: AsJson = False,
) -> None:
    """Set labels of a node. Known ones: gpu-type, the model of its GPUs; address, where other nodes reach it.

    \b
    Examples:
      schedulearn nodes label gpu2 room=b12 gpu-type=A100
      schedulearn nodes label gpu2 room=
    """
    with connect() as client:
        labelled = client.label_node(node, _labels(labels))
    words = ", ".join(f"{key}={value}" for key, value in labelled["labels"].items()) or "none"
    answer(labelled, as_json, f"Labels of node {node}: {clean(words)}.")


@app.command()
def drain(node: Name, as_json: AsJson = False) -> None:
    """Drain a node: its jobs finish, and no new ones start there.

    \b
    Example:
      schedulearn nodes drain local
    """
    with connect() as client:
        drained = client.drain(node)
    words = f"Node {node} is draining: its jobs finish, and no new ones start there."
    steps = {"what still runs": "schedulearn nodes", "undo": f"schedulearn nodes undrain {node}"}
    answer(drained, as_json, words, steps=steps)


@app.command()
def undrain(node: Name, as_json: AsJson = False) -> None:
    """Let a drained node accept jobs again.

    \b
    Example:
      schedulearn nodes undrain local
    """
    with connect() as client:
        undrained = client.drain(node, drain=False)
    answer(undrained, as_json, f"Node {node} accepts jobs again.", steps={"all nodes": "schedulearn nodes"})


def _labels(given: list[str]) -> dict[str, str | None]:
    """`KEY=VALUE`; an empty value takes the label away."""
    labels: dict[str, str | None] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not key or not sign:
            raise Failure(f"{text!r} is not a label", field="label", allowed="KEY=VALUE")
        labels[key] = value or None
    return labels


def _has(node: Json) -> str:
    cores, gpus = node["capacity"].get("cpus") or 0, node["capacity"].get("gpus") or 0
    memory = size(node["capacity"].get("memory") or 0)
    return f"{cores:g} cores, {memory} of memory, {gpus:g} GPUs"
