"""Data-parallel training with torch whose workers come and go while it runs.

    from schedulearn.job.torch import Trainer

    trainer = Trainer(model, optimizer)
    for indices in trainer.batches(len(x), batch_size=64, epochs=20):
        loss = criterion(model(x[indices]), y[indices])
        trainer.step(loss)

The number of workers may change at any step, also by the loss of one. The batch of all workers together stays
what was asked for, and every sample is seen once per epoch. Outside of Schedulearn the same program trains alone.
"""

from __future__ import annotations

import io
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import torch

from schedulearn import job
from schedulearn.job.batching import RULES, GradientNoise, Rule, lr_factor, multiplied
from schedulearn.job.data import Plan, at_least, share
from schedulearn.job.gradients import Gradients
from schedulearn.job.pace import Pace
from schedulearn.job.process_group import Broken, Dismissed, Over, ProcessGroup, StopAsked
from schedulearn.job.randomness import random_state, set_random_state

FILE = "trainer.pt"  # in the folder of a checkpoint
_log = logging.getLogger("schedulearn.job")


class Trainer:
    """Takes the steps of one training, alone or with others.

    `scheduler` is a learning-rate scheduler, called after every step or every epoch (`scheduler_every`). A checkpoint
    is saved at the start, every `save_every` seconds (None: not), at the end, and when the job is stopped; the newest
    one is restored at the start. The loss is reported every `report_every` steps. `clip_norm` bounds the norm of the
    averaged gradient. `timeout` is how many seconds a worker waits for the others in a step before it gives them up.

    A worker that cannot hold its part of a batch takes it in pieces of `max_local_batch` samples. Where the job leaves
    its batch size to the scheduler (`batch: 32..512`), `lr_rule` says how the learning rate follows: "adascale",
    "sqrt", "linear" or "none".
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        scheduler: Any = None,
        *,
        scheduler_every: Literal["step", "epoch"] = "step",
        save_every: float | None = 60.0,
        report_every: int = 1,
        clip_norm: float | None = None,
        timeout: float = 60.0,
        max_local_batch: int | None = None,
        lr_rule: Rule = "adascale",
    ) -> None:
        if lr_rule not in RULES:
            raise ValueError(f"lr_rule is {lr_rule!r}; it must be one of {', '.join(RULES)}")
        if scheduler_every not in ("step", "epoch"):
            raise ValueError(f'scheduler_every is {scheduler_every!r}; it must be "step" or "epoch"')
        if "TORCHELASTIC_RUN_ID" in os.environ:
            raise RuntimeError("Trainer forms the group of workers itself: start the program without torchrun")
        job.init()
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.steps = 0  # done so far, by all workers together; counted in batches of the size that was asked for
        self.epoch = 0  # of the present batch, from 0
        self._scheduler_every, self._clip_norm = scheduler_every, clip_norm
        self._pace, self._report_every = Pace(save_every), at_least(1, "report_every", report_every)
        self._group = ProcessGroup(timeout)
        self._plan: Plan | None = None
        self._gradients = Gradients([])
        self._has_state = False  # whether what the model holds is worth to be handed on
        self._seen = 0  # samples of all epochs that were trained with
        self._batch = 0  # size of the present batch, of all workers together
        self._most_at_once = None if max_local_batch is None else at_least(1, "max_local_batch", max_local_batch)
        self._lr_rule = lr_rule
        self._is_open = job.read_control().batches is not None  # whether the scheduler chooses the batch size
        self._gradient_noise, self._noise = GradientNoise(), 0.0  # as the leader has told it; 0: not known
        self._weight = 0.0  # this worker's part of the present batch
        self._whole = 0  # samples of all workers in it
        self._piece, self._is_last = 1.0, True  # the part of its own that is given out, and whether it ends it
        self._losses: Any = 0.0  # of the pieces so far
        self._due = False  # a batch was given out, and its step is to come
        self._after: Literal["go on", "regroup", "stop"] = "go on"  # what the last step ended with
        self._generation = 0  # to regroup to
        self._stepped_at = time.monotonic()
        self._pausing = False  # no step was done since the group changed

    @property
    def rank(self) -> int:
        """This worker's place among those that train now; 0 leads: it reports and saves."""
        return self._group.rank

    @property
    def size(self) -> int:
        """How many workers train now."""
        return self._group.size

    # --- the loop

    def batches(
        self,
        samples: SupportsIndex,
        batch_size: SupportsIndex,
        epochs: SupportsIndex = 1,
        seed: SupportsIndex = 0,
        shuffle: bool = True,
    ) -> Iterator[torch.Tensor]:
        """The indices of the samples that this worker takes, step by step, from where the training stands.

        `batch_size` is that of all workers together. Call `step` once for every batch.
        """
        if self._plan is not None:
            raise RuntimeError("the batches of a trainer can be asked for once; make another trainer")
        self._plan = Plan(samples, batch_size, seed, shuffle)
        self._batch = self._batch or self._plan.batch_size
        return self._run(self._plan, at_least(0, "epochs", epochs) * self._plan.samples)

    def _run(self, plan: Plan, end: int) -> Iterator[torch.Tensor]:
        """`end`: after so many samples."""
        self._regroup(end)
        if self.steps == 0:
            self._save()  # so that the scheduler sees early that the job can be stopped
        while not self._done(end):
            self.epoch, whole = plan.next(self._seen, self._batch)
            mine = share(whole, self.rank, self.size)
            self._weight, self._losses, self._whole = len(mine) / len(whole), 0.0, len(whole)
            at_once = self._most_at_once or len(mine)
            for start in range(0, len(mine), at_once):
                piece = mine[start : start + at_once]
                self._piece, self._is_last, self._due = len(piece) / len(mine), start + at_once >= len(mine), True
                yield torch.tensor(piece)
                if self._due:
                    raise RuntimeError("step(loss) must be called once for every batch")
            if not mine:
                self._finish(None)
            self._boundary(end)
        self._save()
        self._group.end()

    def step(self, loss: torch.Tensor) -> torch.Tensor | None:
        """Backward, average over all workers, step of the optimiser. `loss` is the mean over this worker's samples.

        Returns the mean loss over the whole batch; None if a worker was lost and the batch will be given out again.
        Of a piece before the last (`max_local_batch`) it returns the loss of that piece.
        """
        if not self._due:
            raise RuntimeError("step(loss) must be called once for every batch of batches(…)")
        if self._piece < 1:
            loss = loss * self._piece
        loss.backward()
        self._losses += loss.detach()
        if not self._is_last:
            self._due = False
            return loss.detach() / self._piece
        return self._finish(self._losses if self._piece < 1 else loss.detach())

    def _finish(self, loss: torch.Tensor | None) -> torch.Tensor | None:
        """The part of a step that all workers take together, also one that had no samples in it."""
        self._due = False
        stop, change = job.step_boundary(), self._group.change()
        batch, noise = self._told()
        try:
            if self.size > 1:
                loss, stop, change, batch, noise = self._average(loss, stop, change, batch, noise)
        except Broken as problem:
            _log.warning("a worker was lost: %s", problem)
            self.optimizer.zero_grad()
            self._after, self._generation = "regroup", 0
            return None
        self._noise = noise or self._noise
        self._apply()
        self._batch = batch or self._batch
        self._after = "stop" if stop else "regroup" if change else "go on"
        self._generation = change
        self._report(loss)
        return loss

    def _told(self) -> tuple[int, float]:
        """What the leader has of the scheduler and of its gradients: the batch size and their noise; 0: nothing."""
        if not self._is_open or self.rank != 0:
            return 0, 0.0
        return job.read_control().batch or 0, self._gradient_noise.scale or 0.0

    def _average(
        self, loss: torch.Tensor | None, stop: bool, change: int, batch: int, noise: float
    ) -> tuple[torch.Tensor, bool, int, int, float]:
        """One sum over all workers does for the gradients, the loss, and what each worker wants."""
        parameters = self._parameters()
        if len(parameters) != len(self._gradients.parameters):
            self._gradients = Gradients(parameters)
        share_of_loss = 0.0 if loss is None else float(loss) * self._weight
        told = [share_of_loss, float(stop), float(change), float(batch), noise]
        numbers = self._gradients.collect(self._weight, told)
        self._group.sum(self._gradients.buffer)
        self._gradients.hand_back()
        return numbers[0].clone(), bool(numbers[1]), int(numbers[2]), int(numbers[3]), float(numbers[4])

    def _parameters(self) -> list[torch.Tensor]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def _apply(self) -> None:
        plan = self._plan
        assert plan is not None
        if self._is_open and self.rank == 0:
            self._gradient_noise.look(self._parameters(), self._whole)
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._clip_norm)
        with multiplied(self.optimizer, lr_factor(self._lr_rule, plan.batch_size, self._batch, self._noise or None)):
            self.optimizer.step()
        self.optimizer.zero_grad()
        self._seen += self._whole
        before, self.steps = self.steps, plan.steps(self._seen)
        if self.scheduler and self._scheduler_every == "step":
            for _ in range(self.steps - before):
                self.scheduler.step()
        elif self.scheduler and self._seen % plan.samples == 0:
            self.scheduler.step()

    def _report(self, loss: torch.Tensor | None) -> None:
        before, self._stepped_at = self._stepped_at, time.monotonic()
        if self.rank == 0 and self.steps % self._report_every == 0 and loss is not None:
            job.report(step=self.steps, loss=loss)
            if self._is_open:
                noise = {"grad_noise": self._noise} if self._noise else {}
                job.report(step=self.steps, samples=self._seen, batch=self._batch, **noise)
        if self._pausing and self.rank == 0:
            job.report(step=self.steps, regroup_seconds=self._stepped_at - before, workers=self.size)
        self._pausing = False

    def _boundary(self, end: int) -> None:
        """Between two steps, where all workers have the same state."""
        if self._after == "stop":
            self._stop()
        if self._after == "regroup":
            self._regroup(end, self._generation)
        elif self._pace.due():
            self._save()

    def _done(self, end: int) -> bool:
        """Whether all are at the end. If one was lost over the last step, another may still need what this one has."""
        while self._seen >= end:
            try:
                self._group.sum(torch.zeros(1))
                return True
            except Broken:
                if self._regroup(end):
                    return True
        return False

    # --- workers come and go

    def _regroup(self, end: int, generation: int = 0) -> bool:
        """Form a group, and have the state of the worker that has come furthest. Whether the training is over."""
        self._pausing = self._has_state
        follows = self._has_state and self.rank != 0
        while True:
            try:
                joined = self._group.join(self._seen if self._has_state else -1, generation)
                if joined.differ:
                    self._take_over(joined.newest)
                if follows and self.rank == 0:
                    self._save()  # the leader before it may have had the only checkpoint, in a place of its own
                return False
            except Broken:
                continue
            except StopAsked:
                self._stop()
            except (Dismissed, Over) as why:
                if isinstance(why, Over) and self._has_state and self._seen >= end:
                    return True
                job.leave(0)

    def _take_over(self, newest: int) -> None:
        """All take the state of one member, from its memory. If none has one: of the checkpoint."""
        giving = self.rank == newest
        if giving and not self._has_state:
            self._restore()
        if self.size > 1:
            data = self._group.send(self._packed() if giving else None, newest)
            if not giving:
                self.load_state_dict(torch.load(io.BytesIO(data), map_location="cpu", weights_only=False))
        self._has_state = True

    def _packed(self) -> bytes:
        stream = io.BytesIO()
        torch.save(self.state_dict(), stream)
        return stream.getvalue()

    def _stop(self) -> None:
        """The job was asked to stop: all are at the same step, one saves, all end."""
        self._save()
        self._group.close()
        job.leave()

    # --- state

    def state_dict(self) -> dict[str, Any]:
        """All that a training needs to go on elsewhere as if nothing had happened."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict() if self.scheduler else None,
            "random": random_state(),
            "steps": self.steps,
            "samples": self._seen,
            "batch": self._batch,
            "noise": self._noise,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler:
            self.scheduler.load_state_dict(state["scheduler"])
        set_random_state(state["random"])
        self.steps = state["steps"]
        known = state.get("samples")  # not in what earlier versions saved
        self._seen = self._plan.seen(self.steps) if known is None and self._plan else int(known or 0)
        if self._is_open:
            self._batch, self._noise = state["batch"], state["noise"]

    def _save(self) -> None:
        self._pace.done()
        # The members by the control file, not by the group, say which one saves: the leader may be about to leave.
        if self._has_state and job.place().rank == 0:
            job.save(self._write, step=self.steps)

    def _write(self, folder: Path) -> None:
        torch.save(self.state_dict(), folder / FILE)

    def _restore(self) -> None:
        saved = job.latest()
        if saved is not None and (saved.folder / FILE).exists():
            self.load_state_dict(torch.load(saved.folder / FILE, map_location="cpu", weights_only=False))
