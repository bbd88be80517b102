"""`policy`: the scheduling policy."""

from typing import Annotated, Any

import typer

from schedulearn.cli.common.out import next_steps, note, say, say_facts, say_json
from schedulearn.cli.common.params import Params, params_of
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, verb_app
from schedulearn.wire.clean import clean
from schedulearn.wire.words import Json, parameters

app = verb_app()
_STAGE_HELP = {
    "order": "Which job goes first.",
    "allocate": "How many workers each job gets.",
    "place": "On which nodes.",
    "share": "How much CPU each job gets on a shared node.",
    "migrate": "Which jobs move to another node.",
}


def _stage(name: str) -> Any:
    return typer.Option(f"--{name}", metavar="NAME", help=_STAGE_HELP[name])


@app.callback(invoke_without_command=True)
def policy(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show and set the scheduling policy.

    \b
    Examples:
      schedulearn policy
      schedulearn policy set fifo --place round-robin
    """
    if ctx.invoked_subcommand is None:
        show(as_json)


@app.command()
def show(as_json: AsJson = False) -> None:
    """Show the policy, all presets and all stages (the same as `schedulearn policy`)."""
    with connect() as client:
        answer = client.policy()
    if as_json:
        say_json(answer)
    else:
        _say(answer)


@app.command("set")
def set_(
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="A preset; `schedulearn policy` lists them.")],
    order: Annotated[str | None, _stage("order")] = None,
    allocate: Annotated[str | None, _stage("allocate")] = None,
    place: Annotated[str | None, _stage("place")] = None,
    share: Annotated[str | None, _stage("share")] = None,
    migrate: Annotated[str | None, _stage("migrate")] = None,
    param: Params = None,
    as_json: AsJson = False,
) -> None:
    """Change the policy at once, without a restart. Running jobs keep running.

    \b
    Examples:
      schedulearn policy set fifo
      schedulearn policy set fifo --place round-robin --param starvation_guard=600
      schedulearn policy set tiresias-gittins --param gpu_times=@times.csv
    """
    given = {"order": order, "allocate": allocate, "place": place, "share": share, "migrate": migrate}
    with connect() as client:
        answer = client.set_policy(preset, {k: v for k, v in given.items() if v}, params_of(param or []))
    if as_json:
        say_json(answer)
        return
    say(f"The policy is now {answer['preset']}: {_stages(answer)}", "green")
    next_steps({"watch what it does": "schedulearn top"})


def _stages(answer: Json) -> str:
    return ", ".join(f"{stage} {name}" for stage, name in answer["stages"].items())


def _say(answer: Json) -> None:
    say_facts(
        [
            ("policy", clean(answer["preset"])),
            *((f"  {stage}", clean(name)) for stage, name in answer["stages"].items()),
            ("parameters", parameters(answer.get("params") or {})),
        ]
    )
    available = answer.get("available") or {}
    presets = available.get("presets") or {}
    if presets:
        say()
        say("Presets", "bold")
        say_facts([(f"  {name}", clean(text) or " ") for name, text in presets.items()])
    stages = available.get("stages") or {}
    if stages:
        say()
        say("Stages", "bold")
        say_facts([(f"  {stage}", ", ".join(names)) for stage, names in stages.items()])
    if answer.get("fault"):
        note(f"fault: {clean(answer['fault'].get('error'))} ({answer['fault'].get('at')})", "red")
    for node, problem in (answer.get("sharing_problems") or {}).items():
        note(f"node {clean(node)} is shared fairly: {clean(problem)}", "yellow")
    say()
    next_steps({"change it": "schedulearn policy set PRESET"})
