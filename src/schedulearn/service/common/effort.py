"""A bound on what one job can cost the service."""

import time


class Effort:
    """Some of the processor's time. Only that of this thread counts: a busy machine takes nothing of it away."""

    def __init__(self, seconds: float) -> None:
        self._until = time.thread_time() + seconds

    @property
    def spent(self) -> bool:
        return time.thread_time() >= self._until
