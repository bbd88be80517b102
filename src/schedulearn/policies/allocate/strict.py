"""Head of the line blocks."""

from schedulearn.policies.stages import DoesNotFit, HeldBehind, Room, Walk


class Strict:
    """Walk the order and give each job what it wants; the first that does not fit ends the walk."""

    def allocate(self, walk: Walk, room: Room, now: float) -> float | None:  # noqa: ARG002 - the protocol's
        for job in walk:
            if not room.grant(job, job.shape.workers.want):
                room.refuse(job, DoesNotFit())
                walk.close(job.shape)
                for other in walk.rest():
                    room.refuse(other, HeldBehind(job.id))
                break
        return None
