"""What a stage writes down while it decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedulearn.core.domain.ids import JobId, NodeName


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the history, with the numbers that led to it: enough to check the decision by hand."""

    kind: str  # e.g. "share_list"
    words: str  # for a person
    job: JobId | None = None
    node: NodeName | None = None
    data: Mapping[str, object] = field(default_factory=dict)  # plain JSON
