"""`policy`: the scheduling policy."""

from typing import Annotated

import typer

from schedulearn.cli.common.errors import Code
from schedulearn.cli.common.out import answer, next_steps, note, say, say_facts, say_json, say_table
from schedulearn.cli.common.params import Params, params_of
from schedulearn.cli.common.progress import progress_bars
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.sim_options import failure_of
from schedulearn.cli.common.verb import AsJson, option, parameter, verb_app, with_options
from schedulearn.cli.view.table import Column, rows_of
from schedulearn.wire.clean import clean
from schedulearn.wire.words import Json, errors_in_words, parameters

app = verb_app()
_STAGE_HELP = {
    "order": "Which job goes first.",
    "allocate": "How many workers each job gets.",
    "place": "On which nodes.",
    "share": "How much CPU each job gets on a shared node.",
    "migrate": "Which jobs move to another node.",
}


_EXAMPLE = (
    Column("job", lambda job: job.label),
    Column("arrival", lambda job: f"{job.arrival:g}", right=True),
    Column("duration", lambda job: f"{job.duration:g}", right=True),
    Column("GPUs", lambda job: f"{job.gpus or ''}", right=True),
    Column("range", lambda job: f"{job.workers[0]}–{job.workers[1]}" if job.workers else "", right=True),
    Column("cores", lambda job: f"{job.cpus:g}" if job.cpus else "", right=True),
)


_with_stages = with_options(
    [parameter(name, Annotated[str | None, option("NAME", about, f"--{name}")]) for name, about in _STAGE_HELP.items()]
)


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
        chosen = client.policy()
    if as_json:
        say_json(chosen)
    else:
        _say(chosen)


@app.command("set")
@_with_stages
def set_(
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="A preset; `schedulearn policy` lists them.")],
    param: Params = None,
    as_json: AsJson = False,
    **given: str | None,
) -> None:
    """Change the policy at once, without a restart. Running jobs keep running.

    \b
    Examples:
      schedulearn policy set fifo
      schedulearn policy set fifo --place round-robin --param starvation_guard=600
      schedulearn policy set tiresias-gittins --param gpu_times=@times.csv
    """
    with connect() as client:
        chosen = client.set_policy(preset, {k: v for k, v in given.items() if v}, params_of(param or []))
    stages = ", ".join(f"{stage} {name}" for stage, name in chosen["stages"].items())
    words = f"The policy is now {chosen['preset']}: {stages}"
    answer(chosen, as_json, words, "green", {"watch what it does": "schedulearn top"})


@app.command()
def check(
    policy: Annotated[str, typer.Argument(metavar="FILE.py[:Class]", help="Stages of your own, or a preset.")],
    tries: Annotated[int, option("N", "Random workloads that it is tried on.", min=1)] = 300,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Other workloads.")] = 0,
    param: Params = None,
) -> None:
    """Try whether a policy keeps the rules; if not, show the smallest workload that breaks one.

    \b
    Examples:
      schedulearn policy check my_policy.py
      schedulearn policy check my_policy.py:MyOrder --tries 2000 --param quantum=1m
    """
    from schedulearn.lab.sim.check import RULES
    from schedulearn.lab.sim.check import check as try_it
    from schedulearn.lab.sim.run import BadRequest, choose

    try:
        (choice,) = choose([policy], {}, params_of(param or []))
    except BadRequest as error:
        raise failure_of(error) from error
    with progress_bars("workloads", tries) as told:
        broken = try_it(choice, tries, seed, lambda done: told(choice.label, done))
    if broken is None:
        say(clean(f"{policy} keeps all rules in {tries:,} workloads:"), "green")
        for words in RULES.values():
            say(f"  {words}")
        return
    say(clean(f"{policy} breaks a rule: {RULES[broken.rule]}"), "bold red")
    say(clean(f"  {broken.problem}"))
    if broken.trace:
        note(clean("\n".join(broken.trace.strip().splitlines()[-6:])), "dim")
    say()
    say(f"The smallest example that was found, on {broken.example.cluster}", "bold")
    say_table(_EXAMPLE, rows_of(_EXAMPLE, broken.example.jobs))
    raise typer.Exit(Code.JOB_FAILED)


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
    if answer.get("estimates"):
        say()
        say("Estimates of jobs that ran", "bold")
        say_facts([(f"  by {clean(one['source'])}", errors_in_words(one)) for one in answer["estimates"]])
    if answer.get("fault"):
        note(f"fault: {clean(answer['fault'].get('error'))} ({answer['fault'].get('at')})", "red")
    for node, problem in (answer.get("sharing_problems") or {}).items():
        note(f"node {clean(node)} is shared fairly: {clean(problem)}", "yellow")
    say()
    next_steps({"change it": "schedulearn policy set PRESET"})
