"""Nodes: what there is, what is free; adding servers, taking one out of service for a while or for good."""

from typing import Annotated

from pydantic import Field

from schedulearn.api.body.fields import CONTROLS, ImageName, OneLine, Strict
from schedulearn.api.common.answers import node_out
from schedulearn.api.common.deps import Gate, Name, Person
from schedulearn.api.common.router import Router
from schedulearn.core.domain.ids import NodeName
from schedulearn.service.gateway.servers import LABEL_NAME, MOST_LABELS, NewNode
from schedulearn.wire import types

router = Router(tags=["nodes"])
Line = Annotated[str, OneLine(300, least=1)]
EngineAddress = Annotated[
    str, OneLine(300, least=1), Field(json_schema_extra={"pattern": f"^(unix|tcp|ssh)://[^?#{CONTROLS}]*$"})
]
LabelName = Annotated[str, Field(json_schema_extra={"pattern": f"^{LABEL_NAME}$"})]
LabelValue = Annotated[str, OneLine(200)]


class NodeIn(Strict):
    address: EngineAddress = Field(description="unix://PATH, tcp://HOST:PORT (with TLS) or ssh://USER@HOST")
    name: Line | None = Field(None, description="left out: after its host")
    image: ImageName | None = Field(None, description="for jobs that name none")
    gpu_type: Line | None = Field(None, description="what its GPUs are called: engines do not tell")
    labels: dict[LabelName, LabelValue] = Field(default_factory=dict, max_length=MOST_LABELS)


class NodeChanges(Strict):
    """What is left out stays as it is."""

    drain: Annotated[bool, Field(strict=True)] | None = None
    labels: Annotated[dict[LabelName, LabelValue | None], Field(max_length=MOST_LABELS)] | None = Field(
        None, description="null takes a label away; all others stay"
    )


@router.get("/nodes")
def nodes(gateway: Gate) -> types.NodePage:
    return types.NodePage(nodes=[node_out(view) for view in gateway.servers.views()])


@router.post("/nodes", status_code=201, responses={409: {}})
def add(node: NodeIn, caller: Person, gateway: Gate) -> types.NewNode:
    """Look at the engine there, and add it if it can be used. Takes as long as the server takes to answer."""
    new = NewNode(node.address, node.name, node.image or "", node.gpu_type, node.labels)
    view, notes = gateway.servers.add(caller, new)
    return {**node_out(view), "notes": notes}


@router.patch("/nodes/{name}", status_code=202)
def change(name: Name, changes: NodeChanges, caller: Person, gateway: Gate) -> types.Node:
    """Drain it: what runs there ends in peace, nothing new is started. Or let it take jobs again; or label it."""
    caller.must_be_admin()
    view = gateway.servers.view(NodeName(name))
    if changes.labels is not None:
        view = gateway.servers.label(caller, NodeName(name), changes.labels)
    if changes.drain is not None:
        view = gateway.servers.drain(caller, NodeName(name), changes.drain)
    return node_out(view)


@router.delete("/nodes/{name}", status_code=202, responses={409: {}})
def remove(name: Name, caller: Person, gateway: Gate, force: bool = False) -> types.Node:
    """Forget it. Refused while jobs run there, unless with `force`: then they are stopped and queued again."""
    return node_out(gateway.servers.remove(caller, NodeName(name), force))
