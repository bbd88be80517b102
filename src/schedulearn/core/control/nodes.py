"""Nodes that join, fall silent, come back, are drained and leave."""

from dataclasses import replace

from schedulearn.core.control import moves
from schedulearn.core.control.state import State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import AddNode, ForgetNode
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Node, NodeState


def node_seen(state: State, event: ev.NodeSeen) -> None:
    if event.node.name in state.changes.nodes_removed:
        return  # it was seen before it was removed, in this very cycle
    before = state.ledger.node(event.node.name)
    node = _as_told(before.node, event.node) if before else event.node
    if before and before.node == node:
        return
    _set_node(state, node)
    if before is None:
        cause = f"node {node.name} joined"
    elif before.node.lost_at is not None:
        cause = f"node {node.name} is back"
    elif before.node.problem != node.problem:
        cause = f"node {node.name} takes " + (f"no jobs: {node.problem}" if node.problem else "jobs again")
    else:
        cause = f"node {node.name} changed"
    state.record(event.at, "node_seen", cause, node=node.name)
    if node.problem:
        moves.withdraw(state, node.name, event.at, f"node {node.name} takes no jobs: {node.problem}")


def _as_told(before: Node, seen: Node) -> Node:
    """What is there now, with what an administrator said: that stays, also over a restart."""
    told = replace(seen.labelled(before.labels), drain=before.drain)
    state = NodeState.REMOVING if before.state is NodeState.REMOVING else told.awake_state
    return replace(told, state=state, lost_at=None)


def _set_node(state: State, node: Node) -> None:
    state.ledger.set_node(node, state.promised_on(node.name))
    state.changes.nodes[node.name] = node
    state.stale = True


def node_probed(state: State, event: ev.NodeProbed) -> None:
    """Somebody wants to add a node, and its engine was looked at. The answer is in the history."""
    problems = list(event.problems)
    if event.node and not problems:
        problems = _clashes(state, event.node)
    if event.node is None or problems:
        told = [{"field": field, "problem": problem} for field, problem in problems]
        cause = f"node {event.name} was not added: {'; '.join(p for _, p in problems)}"
        state.record(event.at, "node_refused", cause, data={"request": event.request, "problems": told})
        return
    _set_node(state, event.node)
    state.command(AddNode(event.node.name))
    data: dict[str, object] = {"request": event.request, "notes": list(event.notes)}
    state.record(event.at, "node_added", f"node {event.name} was added by {event.by}", node=event.name, data=data)


def _clashes(state: State, node: Node) -> list[tuple[str, str]]:
    for other in (ledger.node for ledger in state.ledger):
        if other.name == node.name:
            return [("name", f"there is a node {node.name} already")]
        if node.engine and other.engine == node.engine:
            return [("address", f"this is the engine of node {other.name}, which is at {other.address}")]
        if shared := {d.id for d in node.devices} & {d.id for d in other.devices}:
            return [("address", f"node {other.name} gives out the same GPUs ({', '.join(sorted(shared))})")]
    return []


def node_lost(state: State, event: ev.NodeLost) -> None:
    ledger = state.ledger.node(event.node)
    if ledger is None or ledger.node.lost_at is not None:
        return
    wanted = NodeState.REMOVING if ledger.node.state is NodeState.REMOVING else NodeState.LOST
    _set_state(state, event.node, wanted, lost_at=event.at, problem=event.why)
    state.record(event.at, "node_lost", event.why, node=event.node)
    moves.withdraw(state, event.node, event.at, f"node {event.node} was lost")


def drain_asked(state: State, event: ev.DrainAsked) -> None:
    ledger = state.ledger.node(event.node)
    if ledger is None or ledger.node.drain == event.drain or ledger.node.state is NodeState.REMOVING:
        return
    node = replace(ledger.node, drain=event.drain)
    _set_state(state, event.node, node.awake_state if node.lost_at is None else NodeState.LOST, drain=event.drain)
    what = "takes no new jobs" if event.drain else "takes jobs again"
    state.record(event.at, "drain", f"node {event.node} {what}: {event.by}", node=event.node)
    if event.drain:
        moves.withdraw(state, event.node, event.at, f"node {event.node} {what}")


def labels_asked(state: State, event: ev.LabelsAsked) -> None:
    ledger = state.ledger.node(event.node)
    if ledger is None or ledger.node.labels == event.labels:
        return
    _set_node(state, ledger.node.labelled(event.labels))
    words = ", ".join(f"{key}={value}" for key, value in event.labels) or "none"
    state.record(event.at, "labels", f"labels of node {event.node}, set by {event.by}: {words}", node=event.node)


def begin_to_remove(state: State, name: NodeName, now: float) -> None:
    """From now on it takes nothing; it goes as soon as nothing is there any more."""
    _set_state(state, name, NodeState.REMOVING)
    state.removing.add(name)
    moves.withdraw(state, name, now, f"node {name} is being removed")


def remove_empty(state: State, now: float) -> None:
    for name in sorted(state.removing):
        if _is_empty(state, name):
            state.removing.discard(name)
            state.ledger.remove_node(name)
            state.changes.nodes.pop(name, None)
            state.changes.nodes_removed.append(name)
            state.command(ForgetNode(name))
            state.record(now, "node_removed", f"node {name} was removed", node=name)


def _is_empty(state: State, name: NodeName) -> bool:
    if any(worker.node == name for attempt in state.attempts.values() for worker in attempt.running):
        return False
    return not any(placement.node == name for job in state.jobs.values() for placement in job.placements)


def _set_state(state: State, name: NodeName, wanted: NodeState, **more: object) -> None:
    state.changes.nodes[name] = state.ledger.set_node_state(name, wanted, **more)
    state.stale = True
