"""The cluster at a glance: one call for all that the page shows first."""

from schedulearn.api.common.answers import explanation_out, holder_out, job_out, node_out, policy_in_force
from schedulearn.api.common.deps import Gate, Person
from schedulearn.api.common.router import Router
from schedulearn.wire import types
from schedulearn.wire.words import iso

router = Router(tags=["service"])


@router.get("/overview")
def overview(caller: Person, gateway: Gate) -> types.Overview:
    """Nodes and who holds what, running jobs, the head of the queue with reasons, what has just ended.

    At most half a second old: many who ask share one look.
    """
    seen, now = gateway.overview(), gateway.now()
    return types.Overview(
        at=iso(now),
        scheduler="running" if gateway.health().scheduler_runs else "absent",
        policy=policy_in_force(gateway.policy()),
        counts={state.value: count for state, count in seen.counts.items()},
        last_event=seen.last_event,
        nodes=[node_out(view) for view in seen.nodes],
        holders=[holder_out(lease, used) for lease, used in seen.holders],
        running=[job_out(row, caller, now) for row in seen.running],
        waiting=[
            types.Waiting(job=job_out(row, caller, now), why=explanation_out(row, why)) for row, why in seen.waiting
        ],
        finished=[job_out(row, caller, now) for row in seen.finished],
    )
