"""The scheduling policy: which one is in force, which there are, and another one without a restart."""

from typing import Any

from pydantic import Field

from schedulearn.api.body.fields import Line, Strict
from schedulearn.api.common.deps import Gate, Person
from schedulearn.api.common.router import Router
from schedulearn.wire import types

router = Router(tags=["policy"])


class PolicyIn(Strict):
    preset: Line
    stages: dict[Line, Line] = Field({}, max_length=20)
    params: dict[Line, Any] = Field({}, max_length=100)


@router.get("/policy")
def policy(gateway: Gate) -> types.Policy:
    return gateway.policy()


@router.put("/policy", responses={409: {}})
def set_policy(wanted: PolicyIn, caller: Person, gateway: Gate) -> types.Policy:
    """The scheduler takes it up at its next decision; nothing that runs is disturbed by that alone."""
    return gateway.set_policy(caller, wanted.preset, wanted.stages, wanted.params)
