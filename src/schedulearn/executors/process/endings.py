"""From the files that a shim leaves to the Outcome that the core understands."""

import signal

from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.executors.common.endings import End, read_end
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.process.claim import Claim, read_claim
from schedulearn.executors.process.procfs import boot_id


def end_of(paths: WorkerPaths) -> End:
    """How a worker ended whose claim nobody holds."""
    return read_end(paths) or End(_without_record(read_claim(paths.claim)))


def _without_record(claim: Claim | None) -> Outcome:
    if claim is None or claim.void:
        return Outcome(Ending.LOST, detail="it was never started")
    if claim.boot_id != boot_id():
        return Outcome(Ending.LOST, detail="the machine was restarted")
    return Outcome(Ending.SIGNALLED, signal=signal.SIGKILL, detail="its supervisor was killed")
