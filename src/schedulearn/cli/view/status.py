"""One line that says how a job stands."""

from schedulearn.wire.clean import clean
from schedulearn.wire.words import Json, bar, duration, eta, metric, share_done, sparkline, steps_done, why


def status_line(job: Json, place: Json | None = None) -> str:
    """`job 17 mnist · running 2 min · ━━━━────── 42 % · loss 0.31 ▇▅▃▁ · about 3 min left`"""
    parts = [f"job {job['id']} {clean(job['name'])}"]
    if job["state"] == "queued":
        position = (place or {}).get("position")
        parts.append(f"queued, place {position}" if position else "queued")
        parts.append(clean((place or {}).get("text") or why(job)))
    elif job["state"] == "running":
        parts += ["running " + duration(job.get("run_seconds")), *_progress(job)]
    else:
        parts += [job["state"], why(job)]
    return " · ".join(part for part in parts if part)


def _progress(job: Json) -> list[str]:
    share = share_done(job)
    steps = steps_done(job)
    done = f"{bar(share)} {share * 100:.0f} %" if share is not None else f"step {steps}" if steps else ""
    curve = sparkline((job.get("progress") or {}).get("spark") or (), 12)
    left = eta(job)
    return [done, f"{metric(job, named=True)} {curve}".strip(), f"about {left} left" if left else ""]
