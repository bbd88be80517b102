"""The report of a study as a page."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from schedulearn.core.domain.resources import CPUS, GPUS
from schedulearn.core.domain.units import format_duration
from schedulearn.lab.report import plots
from schedulearn.lab.report.page import SCRIPT, document, made_by, note
from schedulearn.lab.report.page import table as words_table
from schedulearn.lab.sim.figures import FAIRNESS, IN_WORDS, METRICS, Metric, Summary, estimates_in_words, table
from schedulearn.lab.sim.locality import in_words
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.run import PolicyFailed, Study

_MOST_NODES = 16  # of a timeline: more cannot be told apart
_MOST_BARS = 1500
_MOST_LISTED = 20  # malformed rows, jobs that are too large


def write_report(
    path: Path, study: Study, results: Sequence[Result], failures: Sequence[PolicyFailed], command: Sequence[str]
) -> None:
    path.write_text(page(study, results, failures, command), "utf-8")


def page(study: Study, results: Sequence[Result], failures: Sequence[PolicyFailed], command: Sequence[str]) -> str:
    """The whole page; sections that have nothing to show are left out."""
    title = f"{study.workload.name} on {study.cluster}"
    summaries = [result.summary() for result in results]
    sections = [
        _heading(title, study, results),
        warnings(study, failures),
        _figures(summaries),
        _fairness(summaries),
        legend(results),
        completion_times(results),
        _over_time(results),
        _counts(summaries),
        _timelines(study, results),
        how_made(results, study, f"Seed {study.options.seed}.", command),
    ]
    return document(title, sections, SCRIPT)


def _heading(title: str, study: Study, results: Sequence[Result]) -> str:
    words = {GPUS: "GPUs", CPUS: "cores"}
    amounts = {word: sum(node.capacity[kind] for node in study.nodes) for kind, word in words.items()}
    has = " and ".join(f"{amount:,.0f} {word}" for word, amount in amounts.items() if amount)
    facts = (
        f"{len(study.workload.jobs):,} jobs, {len(study.nodes):,} nodes with {has}, "
        f"{len(results)} {'policy' if len(results) == 1 else 'policies'}"
    )
    return f"<h1>{escape(title)}</h1><p class=sub>{facts}</p>"


def warnings(study: Study, failures: Sequence[PolicyFailed]) -> str:
    parts = [f"<p><b>{escape(str(failed))}</b></p>" for failed in failures]
    problems = study.workload.problems
    if problems:
        rows = [f"line {problem.line}: {escape(problem.text)}" for problem in problems[:_MOST_LISTED]]
        parts.append(_listed(f"{len(problems):,} malformed rows of the trace were left out", rows, len(problems)))
    large = study.too_large
    if large:
        jobs = study.workload.jobs
        rows = [f"{escape(jobs[s - 1].label)} asks for {jobs[s - 1].gpus:,} GPUs" for s in large[:_MOST_LISTED]]
        parts.append(_listed(f"{len(large):,} jobs ask for more GPUs than the cluster has", rows, len(large)))
    return f"<section class=warn>{''.join(parts)}</section>" if parts else ""


def _listed(summary: str, rows: Sequence[str], total: int) -> str:
    more = f"<li>and {total - len(rows):,} more</li>" if total > len(rows) else ""
    return f"<details><summary>{summary}</summary><ul>{''.join(f'<li>{row}</li>' for row in rows)}{more}</ul></details>"


def _figures(summaries: Sequence[Summary]) -> str:
    marked = note("The best of each column is marked. JCT: from arrival to end.") if len(summaries) > 1 else ""
    return f"<h2>Results</h2>{_compared(summaries, METRICS)}{marked}"


def _fairness(summaries: Sequence[Summary]) -> str:
    """How single jobs and users fared."""
    words = IN_WORDS[0].upper() + IN_WORDS[1:]
    parts = [f"<h2>Fairness</h2>{_compared(summaries, FAIRNESS)}{note(words + '.')}"]
    for figures in summaries:
        if figures["starved"]:
            names = ", ".join(map(escape, figures["starved_jobs"]))
            more = f" and {figures['starved'] - len(figures['starved_jobs']):,} more"
            left_out = more if figures["starved"] > len(figures["starved_jobs"]) else ""
            parts.append(f"<p>Starved under {escape(figures['policy'])}: {names}{left_out}.</p>")
    return "".join([*parts, *map(_users, summaries)])


def _users(figures: Summary) -> str:
    users = figures["users"]
    if len(users) < 2:
        return ""
    unit = "core" if figures["used_of"] == "cores" else "GPU"
    head = ("user", "jobs", f"{unit} hours", "part of all", "avg completion time", "slowdown", "fairness ρ")
    rows = [
        (
            one["user"] or "–",
            f"{one['jobs']:,}",
            f"{one['slot_hours']:,.1f}",
            f"{100 * one['share']:.0f} %",
            format_duration(one["avg_jct"]),
            f"{one['mean_slowdown']:.2f}",
            f"{one['mean_rho']:.2f}",
        )
        for one in users
    ]
    summary = f"Use by user under {escape(figures['policy'])}"
    return f"<details><summary>{summary}</summary>{words_table(head, rows)}</details>"


def _compared(summaries: Sequence[Summary], metrics: Sequence[Metric]) -> str:
    """A table with a row for each policy."""
    columns = table(summaries, metrics)
    head = "".join(f"<th>{escape(column.title)}</th>" for column in columns)
    body = ""
    for i, figures in enumerate(summaries):
        cells = "".join(f"<td{' class=best' if c.best[i] else ''}>{escape(c.texts[i])}</td>" for c in columns)
        body += f"<tr><th scope=row>{escape(figures['policy'])}</th>{cells}</tr>"
    return f"<div class=scroll><table><tr><th>policy</th>{head}</tr>{body}</table></div>"


def legend(results: Sequence[Result]) -> str:
    policies = dict.fromkeys(result.policy for result in results)
    if len(policies) < 2:
        return ""
    keys = "".join(
        f'<button data-series="{i}" aria-pressed=true><svg viewBox="0 0 24 8">'
        f'<path class="line {plots.style(i)}" d="M0 4H24"/></svg>{escape(policy)}</button>'
        for i, policy in enumerate(policies)
    )
    return f"<nav class=legend aria-label=policies>{keys}<span class=note>click to hide or show</span></nav>"


def completion_times(results: Sequence[Result]) -> str:
    """Of all jobs of a policy, in however many runs."""
    times: dict[str, list[float]] = {result.policy: [] for result in results}
    for result in results:
        times[result.policy] += [job.jct for job in result.jobs]
    known = [time for policy in times.values() for time in policy]
    if not known:
        return ""
    lines = [plots.Line(name, plots.cdf(own), i) for i, (name, own) in enumerate(times.items()) if own]
    x = plots.log_time_axis(min(known), max(known))
    chart = plots.line_chart(lines, x, plots.share_axis(), "completion time (log)", "share of jobs")
    return f"<h2>Completion times</h2><figure>{chart}</figure>"


def _over_time(results: Sequence[Result]) -> str:
    """Queue length and utilisation, each as a mean over a few hundred stretches of time."""
    begin = min((result.first_arrival for result in results), default=0.0)
    end = max((sample[0] for result in results for sample in result.samples), default=begin)
    if end <= begin:
        return ""
    queued, used = [], []
    for i, result in enumerate(results):
        last = max((job.ended for job in result.jobs), default=begin)
        waiting = [(time, float(length)) for time, length, _ in result.samples]
        busy = [(time, slots / result.slots) for time, _, slots in result.samples]
        queued.append(plots.Line(result.policy, plots.averaged(waiting, begin, max(last, begin)), i))
        used.append(plots.Line(result.policy, plots.averaged(busy, begin, max(last, begin)), i))
    x = plots.time_axis(end - begin)
    highest = max((value for line in queued for _, value in line.points), default=0.0)
    since = "time since the first arrival"
    waiting_chart = plots.line_chart(queued, x, plots.value_axis(highest), since, "waiting jobs")
    used_chart = plots.line_chart(used, x, plots.share_axis(), since, f"{results[0].unit} in use")
    return f"<h2>Queue length</h2><figure>{waiting_chart}</figure><h2>Utilisation</h2><figure>{used_chart}</figure>"


def _counts(summaries: Sequence[Summary]) -> str:
    """Bars for what happened at all; the others are named."""
    kinds = {"preemptions": "Pre-emptions", "migrations": "Migrations", "resizes": "Resizes"}
    if any(summary["deadlines"] for summary in summaries):
        most = max(summary["deadlines"] for summary in summaries)
        kinds["missed_deadlines"] = f"Missed deadlines (of {most:,})"
    charts, none = "", []
    for key, title in kinds.items():
        if any(summary[key] for summary in summaries):
            bars = [(summary["policy"], float(summary[key]), i) for i, summary in enumerate(summaries)]
            charts += f"<figure class=small><figcaption>{title}</figcaption>{plots.bar_chart(bars, title)}</figure>"
        else:
            none.append(title.lower())
    left_out = note(f"None under any policy: {', '.join(none)}.") if none else ""
    return (
        f"<h2>Interruptions{' and deadlines' if len(kinds) > 3 else ''}</h2><div class=grid2>{charts}</div>{left_out}"
    )


def _timelines(study: Study, results: Sequence[Result]) -> str:
    parts = [_timeline(study, result, i == 0) for i, result in enumerate(results) if result.segments]
    return f"<h2>Jobs on nodes</h2>{''.join(parts)}" if parts else ""


def _timeline(study: Study, result: Result, is_open: bool) -> str:
    nodes = study.nodes[:_MOST_NODES]
    rows = {str(node.name): k for k, node in enumerate(nodes)}
    begin = result.first_arrival
    end = max(segment.end for segment in result.segments) - begin
    there = [segment for segment in result.segments if segment.node in rows]
    # What is narrower than half a pixel, and what is too much for one picture: the longest stay.
    visible = [segment for segment in there if segment.end - segment.start >= end / 1600]
    visible = sorted(visible, key=lambda s: (s.start - s.end, s.start, s.serial))[:_MOST_BARS]
    spans = [
        plots.Span(
            rows[segment.node],
            segment.start - begin,
            segment.end - begin,
            segment.workers,
            segment.serial,
            f"{study.workload.jobs[segment.serial - 1].label}: {segment.workers} GPUs, "
            f"{format_duration(segment.end - segment.start)}",
        )
        for segment in visible
    ]
    drawing = plots.Timeline([(node.name, int(node.capacity[GPUS])) for node in nodes], end).draw(spans)
    left_out = _left_out(len(study.nodes) - len(nodes), len(there) - len(visible), len(there))
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{escape(result.policy)}</summary><figure>{drawing}</figure>{left_out}</details>"


def _left_out(nodes: int, bars: int, total: int) -> str:
    words = []
    if nodes:
        words.append(f"{nodes:,} more nodes")
    if bars:
        words.append(f"the {bars:,} shortest of {total:,} stays on these nodes")
    return note(f"Left out, to stay readable: {' and '.join(words)}.") if words else ""


def how_made(results: Sequence[Result], study: Study, seeds: str, command: Sequence[str]) -> str:
    """Of several runs of a policy, the estimates of the first."""
    rows = [
        (
            result.policy,
            ", ".join(f"{kind} {name}" for kind, name in result.stages.items()),
            ", ".join(f"{key}={_plain(value)}" for key, value in result.params.items()) or "defaults",
            estimates_in_words(result.estimates),
        )
        for result in {result.policy: result for result in reversed(results)}.values()
    ]
    options = study.options
    world = [
        f"restart cost {format_duration(options.restart_cost)}",
        f"checkpoint every {format_duration(options.checkpoint_every)}"
        if options.checkpoint_every
        else "checkpoint at each stop",
        in_words(study.workload, study.nodes, options.locality_penalty) or "as fast across nodes as on one",
        f"a node fails every {format_duration(options.node_mtbf)}" if options.node_mtbf else "no node fails",
    ]
    head = ("policy", "stages", "parameters", "durations it knew")
    assumed = f"<p>Assumed: {', '.join(world)}.</p>{note(seeds)}"
    return f"<h2>How this was made</h2>{words_table(head, rows[::-1])}{assumed}{made_by(command)}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
