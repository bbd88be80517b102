"""A worker's control file, and the group in it: who trains together. What else is in the file stays."""

import json
from typing import Any

from schedulearn.core.domain.group import Group


def group_values(group: Group) -> dict[str, object]:
    """A group as the file has it."""
    return {"world_size": len(group.members), "generation": group.generation, "members": list(group.members)}


def with_group(known: bytes, group: Group) -> bytes | None:
    """The content of the file with this group; None if it has this one, or a newer one."""
    others = content(known)
    generation = others.get("generation")
    if isinstance(generation, int) and generation >= group.generation and "members" in others:
        return None
    return json.dumps({**others, **group_values(group)}).encode()


def leads(known: bytes, rank: int) -> bool:
    """Whether the worker with this rank is the first of the group. Where nothing is said of one, that is worker 0."""
    members = content(known).get("members")
    return rank == (members[0] if members and isinstance(members, list) else 0)


def content(known: bytes) -> dict[str, Any]:
    """What is in the file; nothing, if that cannot be read."""
    try:
        return dict(json.loads(known))
    except (ValueError, TypeError, RecursionError):
        return {}
