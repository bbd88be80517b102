"""Which workers of an attempt train together, where they come and go while it runs."""

from typing import NamedTuple


class Group(NamedTuple):
    """Who belongs to it from now on. A worker's place in it is the index of its rank among the members."""

    generation: int  # grows with every change of the members
    members: tuple[int, ...]  # ranks, ascending; a rank is never used twice in an attempt
