"""The machines of a simulation."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import Resources

BANDWIDTH = "bandwidth"  # of a node: bytes in a second to and from others; 0: its network is as fast as anything
GIGABIT = 125e6  # bytes
_ALLOWED = "NODESxGPUS such as 16x4, NODESxCORESc such as 2x8c, or a YAML file with a list of nodes"


def parse_cluster(text: str) -> list[Node]:
    """`16x4`: sixteen nodes with four GPUs each. `2x8c`: two nodes with eight cores each and no GPU."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*[x×]\s*(\d{1,4})(c?)\s*", text)
    if not match or int(match[1]) < 1 or int(match[2]) < 1:
        raise InvalidSpec("cluster", f"{text!r} is not a cluster", _ALLOWED)
    each = int(match[2])
    return [make_node(i, 0, cpus=each) if match[3] else make_node(i, each) for i in range(int(match[1]))]


def make_node(number: int, gpus: int, name: str = "", cpus: float = 0.0, memory: float = 0.0) -> Node:
    """A node whose GPUs are counted, not named: a simulation has no use for their ids."""
    # Names sort as the nodes are numbered.
    return Node(
        NodeName(name or f"node{number:04d}"),
        executor="simulated",
        capacity=Resources(gpus=gpus, cpus=cpus, memory=memory),
        cpus_per_gpu=0.0,
    )


def nodes_from_list(entries: object) -> list[Node]:
    """`[{count: 4, gpus: 8, cpus: 64}, {name: big, gpus: 16}]`, as a YAML file has it."""
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise InvalidSpec("cluster", "it has no nodes", "a list of nodes, at least one")
    nodes: list[Node] = []
    for i, entry in enumerate(entries):
        field = f"cluster[{i}]"
        count, gpus, cpus, memory, name = _entry(entry, field)
        bandwidth = entry.get("bandwidth")
        for k in range(count):
            node = make_node(len(nodes), gpus, f"{name}{k}" if name and count > 1 else name, cpus, memory)
            nodes.append(node if bandwidth is None else with_bandwidth(node, bandwidth, f"{field}.bandwidth"))
    if len({node.name for node in nodes}) < len(nodes):
        raise InvalidSpec("cluster", "two nodes have the same name", "names that differ")
    return nodes


def with_bandwidth(node: Node, gigabits: object, field: str) -> Node:
    """The node with a network of so many Gbit/s."""
    if isinstance(gigabits, bool) or not isinstance(gigabits, int | float) or not 0 < gigabits < math.inf:
        raise InvalidSpec(field, f"{gigabits!r} is no bandwidth", "Gbit/s of a node's network, above 0")
    return replace(node, capacity=node.capacity + Resources({BANDWIDTH: gigabits * GIGABIT}))


def _entry(entry: object, field: str) -> tuple[int, int, float, float, str]:
    if not isinstance(entry, dict) or not set(entry) <= {"count", "gpus", "cpus", "memory", "name", "bandwidth"}:
        raise InvalidSpec(field, "is not a node", "a map with gpus, and maybe count, cpus, memory, name, bandwidth")
    try:
        count, gpus = int(entry.get("count", 1)), int(entry.get("gpus", 0))
        cpus, memory = float(entry.get("cpus", 0)), float(entry.get("memory", 0))
    except (TypeError, ValueError):
        raise InvalidSpec(field, "has something that is no number", "numbers") from None
    if count < 1 or gpus < 0 or cpus < 0 or gpus + cpus <= 0:
        raise InvalidSpec(field, "is an empty node", "count at least 1, and GPUs or cores")
    return count, gpus, cpus, memory, str(entry.get("name", ""))
