"""`simulate`: replay a workload under one policy."""

from typing import Annotated, Any

import typer

from schedulearn.cli.common.errors import Code
from schedulearn.cli.common.out import next_steps, say, say_facts, say_json
from schedulearn.cli.common.sim_options import sim_options, study_of
from schedulearn.cli.common.study import run_studies, write_files
from schedulearn.cli.common.verb import AsJson, option, verb_app, with_options
from schedulearn.wire.clean import clean
from schedulearn.wire.words import Json, duration

app = verb_app()


@app.command()
@with_options(sim_options)
def simulate(
    policy: Annotated[str, option("NAME|FILE.py:Class", "A preset, or a class of your own in a file.")] = "fifo",
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Replay a workload under a policy in virtual time, with the scheduling code of the live service.

    \b
    Examples:
      schedulearn simulate --trace synthetic:philly?jobs=1000 --cluster 8x8 --policy srtf
      schedulearn simulate --trace jobs.csv --cluster 12x8 --policy fifo --allocate strict --json
      schedulearn simulate --history --cluster 2x4 --policy my_policy.py:MyOrder --out results
    """
    study = study_of(given, [policy])
    runs, failures = run_studies([study])
    if not runs:
        raise typer.Exit(Code.JOB_FAILED)
    from schedulearn.lab.sim.export import as_json as figures_of

    figures = figures_of(*runs[0])
    files = write_files(given["out"], runs, failures) if given["out"] is not None else []
    if as_json:
        say_json(figures)
        return
    _say(figures)
    if files:
        say()
        next_steps({"read the report": f"open {files[0]}"})


def _say(figures: Json) -> None:
    from schedulearn.lab.sim.figures import estimates_in_words

    stages = ", ".join(f"{kind} {name}" for kind, name in figures["stages"].items())
    say(clean(f"{figures['policy']} on {figures['trace']}, {figures['cluster']}"), "bold")
    completed = f"{figures['completed']:,} of {figures['jobs']:,}"
    missed = f"{figures['missed_deadlines']:,} of {figures['deadlines']:,}" if figures["deadlines"] else ""
    times = ("p50_jct", "p95_jct", "p99_jct")
    say_facts(
        [
            ("stages", clean(stages)),
            ("completed", completed + (f" ({figures['impossible']:,} too large)" if figures["impossible"] else "")),
            ("average completion time", _time(figures["avg_jct"])),
            ("  p50, p95, p99", ", ".join(duration(figures[key]) for key in times)),
            ("average wait", _time(figures["avg_wait"])),
            ("slowdown: mean, p99, worst", _factors(figures, "mean_slowdown", "p99_slowdown", "worst_slowdown")),
            ("worst wait", _time(figures["worst_wait"])),
            ("fairness ρ: mean, worst", _factors(figures, "mean_rho", "worst_rho")),
            ("starved", _starved(figures)),
            ("makespan", _time(figures["makespan"])),
            (
                f"{figures['used_of']} in use",
                f"{100 * figures['utilization']:.1f} %, usefully {100 * figures['useful']:.1f} %",
            ),
            (
                "pre-empted, moved, resized",
                " ".join(f"{figures[k]:,}" for k in ("preemptions", "migrations", "resizes")),
            ),
            ("lost to migration", _time(figures["migration_seconds"]) if figures["migration_seconds"] else ""),
            ("missed deadlines", missed),
            ("work lost", _time(figures["lost_work"]) if figures["lost_work"] else ""),
            ("node failures", f"{figures['node_failures']:,}" if figures["node_failures"] else ""),
            ("duration estimates", estimates_in_words(figures["estimates"])),
            ("simulated in", f"{figures['wall_seconds']:.2f} s"),
        ]
    )


def _factors(figures: Json, *keys: str) -> str:
    return ", ".join(f"{figures[key]:,.2f}" for key in keys)


def _starved(figures: Json) -> str:
    more = figures["starved"] - len(figures["starved_jobs"])
    return clean(", ".join(figures["starved_jobs"])) + (f" and {more:,} more" if more else "")


def _time(seconds: float) -> str:
    """For a person, and exactly."""
    return f"{duration(seconds)} ({seconds:,.2f} s)"
