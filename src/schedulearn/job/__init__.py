"""What a training program may call from inside a job. Standard library only; outside of Schedulearn it does nothing.

    from schedulearn import job

    for step in range(steps):
        loss = train_step()
        job.report(step=step, loss=loss)

`report` never waits for the service and never raises: if the service is away, what was reported arrives later.
"""

from schedulearn.job.identity import Info, checkpoint_dir, info
from schedulearn.job.reporter import flush, report

__all__ = ["Info", "checkpoint_dir", "flush", "info", "report"]
