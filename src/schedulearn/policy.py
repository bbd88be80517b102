"""All that the author of a policy needs, in one place: the stages to derive from, and what they are given.

`docs/writing-policies.md` says what each is for. Nothing else of Schedulearn needs to be imported by a policy, and
what is here keeps its name.
"""

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Accrual, Job, Placement
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY, Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.spec import Workers
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.params import Seconds
from schedulearn.core.policies.sharing import Container, Left, Share, ShareNode, Shares
from schedulearn.core.policies.stages import (
    Allocate,
    Allocation,
    Ask,
    Board,
    DoesNotFit,
    Facts,
    FreeNode,
    HeldBehind,
    Key,
    KeyChanges,
    Known,
    Memory,
    Migrate,
    Moves,
    Nodes,
    NoPlace,
    Order,
    Place,
    Refusal,
    Running,
)

__all__ = [
    "CPUS",
    "GPUS",
    "MEMORY",
    "Accrual",
    "Allocate",
    "Allocation",
    "Ask",
    "Board",
    "Container",
    "DoesNotFit",
    "Facts",
    "FreeNode",
    "HeldBehind",
    "Job",
    "JobId",
    "Key",
    "KeyChanges",
    "Known",
    "Left",
    "Memory",
    "Migrate",
    "Moves",
    "NoPlace",
    "NodeName",
    "Nodes",
    "Note",
    "Order",
    "Place",
    "Placement",
    "Refusal",
    "Resources",
    "Running",
    "Seconds",
    "Shape",
    "Share",
    "ShareNode",
    "Shares",
    "SpeedUp",
    "Workers",
]
