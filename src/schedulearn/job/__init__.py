"""What a training program may call from inside a job. Standard library only; outside of Schedulearn it does nothing.

    from schedulearn import job

    job.init()
    state = job.restore(default=fresh())
    for batch in job.batches(len(x), 32, epochs=10, start=state.step):
        loss = train_step(state, x[batch.indices])
        job.report(step=batch.step, loss=loss)
        if job.step_boundary():
            job.save(state, step=batch.step)
            job.leave()

`report` never waits for the service and never raises: if the service is away, what was reported arrives later.
For torch, Keras and scikit-learn there are `schedulearn.job.torch`, `.keras` and `.sklearn`.
"""

from schedulearn.job.checkpoint import Fenced, Saved, latest, restore, save
from schedulearn.job.control import Control, read_control
from schedulearn.job.data import Batch, Plan, batches, share
from schedulearn.job.identity import Info, Place, checkpoint_dir, info, place
from schedulearn.job.reporter import flush, report
from schedulearn.job.stopping import init, leave, step_boundary, stop_asked

__all__ = [
    "Batch",
    "Control",
    "Fenced",
    "Info",
    "Place",
    "Plan",
    "Saved",
    "batches",
    "checkpoint_dir",
    "flush",
    "info",
    "init",
    "latest",
    "leave",
    "place",
    "read_control",
    "report",
    "restore",
    "save",
    "share",
    "step_boundary",
    "stop_asked",
]
