"""In which order the limits of a running worker change, and what is written into its control file then."""

import json
import logging
from collections.abc import Callable

from schedulearn.domain.errors import ExecutorError
from schedulearn.domain.usage import Limits
from schedulearn.executors.common.environment import threads_for
from schedulearn.executors.kernel.groups import in_force

log = logging.getLogger(__name__)


def change(
    asked: Limits, before: Limits, cores: float, write: Callable[[Limits], Limits], tell: Callable[[Limits], None]
) -> Limits | None:
    """Returns the limits in force; None: they were so before. ExecutorError or OSError if nothing could be changed.

    Threads above the quota collapse throughput. So a worker is told of a smaller one before, of a larger one after.
    """
    if in_force(asked, before):
        return None
    shrinks = (asked.cpus or cores) < (before.cpus or cores)
    if shrinks:
        tell(asked.over(before))
    try:
        after = write(asked)
    except (OSError, ExecutorError):
        if shrinks:
            tell(before)
        raise
    try:
        tell(after)
    except (OSError, ExecutorError) as error:  # a full disk, say: the limits hold, only the hint is old
        log.warning("a control file is not up to date: %s", error)
    return after


def control_text(known: bytes, limits: Limits, cores: float) -> bytes:
    """The content of a control file; what is in it beside the limits stays."""
    try:
        others = dict(json.loads(known))
    except (ValueError, TypeError):
        others = {}
    present = {"cpus": limits.cpus, "threads": threads_for(limits.cpus, cores), "memory": limits.memory}
    return json.dumps({**others, **present}).encode()
