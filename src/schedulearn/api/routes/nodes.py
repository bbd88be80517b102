"""Nodes: what there is, what is free, and taking one out of service."""

from fastapi import APIRouter

from schedulearn.api.convert import node_out
from schedulearn.api.deps import Gate, Name, Person
from schedulearn.api.fields import Strict
from schedulearn.api.schemas import NodeOut, NodePage
from schedulearn.domain.ids import NodeName

router = APIRouter(tags=["nodes"])


class NodeChanges(Strict):
    drain: bool


@router.get("/nodes")
def nodes(gateway: Gate) -> NodePage:
    return NodePage(nodes=[node_out(view) for view in gateway.nodes()])


@router.patch("/nodes/{name}", status_code=202)
def change(name: Name, changes: NodeChanges, caller: Person, gateway: Gate) -> NodeOut:
    """Drain it: what runs there ends in peace, nothing new is started. Or let it take jobs again."""
    return node_out(gateway.drain(caller, NodeName(name), changes.drain))
