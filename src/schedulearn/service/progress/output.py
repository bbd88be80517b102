"""What a line of output says of a training: the metric's value, and the step that it belongs to.

Understood are plain lines (`step 100 loss: 0.31`) and the progress bars of Keras, tqdm and Lightning. A bar counts
batches within an epoch; with the epoch's number, or by seeing bars begin anew, that becomes a step that never goes
back.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from schedulearn.core.domain.spec import Metric
from schedulearn.service.progress.pattern import compile_pattern
from schedulearn.service.progress.tags import is_foreign, likeness
from schedulearn.wire.clean import ESCAPES

LONGEST = 512  # characters of a line that are looked at
# What a job prints must not make these slow: no two repetitions in a row can take the same characters, and where they
# could, the first keeps what it has (`++`, `*+`). A test feeds them lines that would show it.
_NUMBER = r"([-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[-+]?\d++)?|nan|[-+]?inf(?:inity)?)"
_COUNTED = r"(\d{1,15})\s*/\s*(\d{1,15}|\?|-+|Unknown)"  # batch and how many there are
_EPOCH = r"\bepoch\b[\s:=#\[(]*(\d{1,15})"

_PLAIN_STEP = re.compile(
    r"\b(?:global[_ ]?step|step|iter(?:ation)?|epoch|batch)\b[\s:=#\[(]*(\d{1,15})(?!\d)", re.IGNORECASE
)
_HEADER = re.compile(r"\s*Epoch (\d{1,15})/\d+\s*$")  # of Keras, in a line of its own
_KERAS = re.compile(rf"\s*{_COUNTED}\s+(?:\[|━|-\s|\d+m?s\b|\d+:\d\d)")
_TQDM_OR_RICH = re.compile(rf"(?<![\d.]){_COUNTED}\s+(?:\[\d+:\d\d|\d+:\d\d:\d\d)")
_IN_WORDS = re.compile(
    rf"{_EPOCH}(?:\s*/\s*\d+)?[\])]*[\s,;:|-]*(?:\b(?:step|batch|iter(?:ation)?)\b[\s:=#\[(]*|[\[(]\s*){_COUNTED}",
    re.IGNORECASE,
)
_EPOCH_BEFORE = re.compile(_EPOCH, re.IGNORECASE)
_NAMED = re.compile(
    rf"(?<![\w/.-])(?:(?![A-Za-z_])[\w/.-])*+([A-Za-z_][\w/.-]*+)\s*+[=:]\s*+{_NUMBER}(?!\w|\.\d)", re.IGNORECASE
)


def usual_pattern(name: str) -> re.Pattern[str]:
    """What to look for where the user has no pattern: `loss: 0.31`, `loss=0.31`, `Loss 0.31`."""
    return re.compile(rf"(?<![\w-]){re.escape(name)}\b[\s:=]*+{_NUMBER}(?!\w|\.\d)", re.IGNORECASE)


def clean(raw: bytes) -> str:
    """As a person sees it: without colours and other commands to the terminal."""
    text = ESCAPES.sub("", raw[: LONGEST * 4].decode("utf-8", "replace")).replace("\b", "")
    return text[:LONGEST]


class Batch(NamedTuple):
    """Where a bar stands."""

    epoch: int | None  # as the line says it
    number: int
    of: int | None  # None: not known yet


def batch_in(text: str) -> Batch | None:
    """`5/10 [00:01<00:01, …`, ` 5/469 ━━━ 2s …`, `Epoch [3/10], Step [50/469]`."""
    if found := _KERAS.match(text):
        return Batch(None, int(found[1]), _of(found[2]))
    if found := _TQDM_OR_RICH.search(text):
        epoch = _EPOCH_BEFORE.search(text[: found.start()])
        return Batch(int(epoch[1]) if epoch else None, int(found[1]), _of(found[2]))
    if found := _IN_WORDS.search(text):
        return Batch(int(found[1]), int(found[2]), _of(found[3]))
    return None


def _of(text: str) -> int | None:
    return int(text) if text.isdigit() else None


@dataclass(slots=True)
class _Steps:
    """From batches to steps. A bar that is not the training's (an evaluation, one drawn again) gives none."""

    last: int = 0  # the step that was reached; 0: read from the beginning
    base: int = 0  # steps before the present training, or (without epochs) before the present bar
    epoch: int | None = None  # counted from 0; None: no epoch was named
    first: int | None = None  # the number of the first epoch: some count from 0
    batch: int = 0
    length: int = 0  # of an epoch; 0: not known yet
    guess: int = 0  # of the same, from how far the last one was seen to go
    over: bool = False  # the epoch has a heading, and the bar below it has come to its end
    headed: bool = False  # epochs have headings; else each bar names its own

    def header(self, number: int) -> None:
        """Keras begins an epoch; the first is number 1."""
        if self.epoch is not None and number - 1 <= self.epoch:
            self._begin_anew()  # `fit` was called again
        self.headed = True
        self._begin(number - 1)

    def at(self, bar: Batch, ended: bool) -> int | None:
        if bar.number <= 0 or (bar.of and bar.number > bar.of):
            return None
        if self.epoch is None:
            self._without_epoch(bar)
        elif self._is_another(bar):
            return None
        self.batch, self.length = bar.number, bar.of or self.length
        self.over = self.headed and ended and bar.number == bar.of
        step = self.base + (self.epoch or 0) * (self.length or self.guess) + bar.number
        if step < self.last:  # not all was seen: it counts on from what is known
            self.base += self.last - step
        self.last = max(self.last, step)
        return self.last

    def _is_another(self, bar: Batch) -> bool:
        """Whether this is no bar of the epoch."""
        if self.over or bar.number < self.batch or (bar.epoch is None and not self.headed):
            return True
        return self.length > 0 and bar.of not in (None, self.length)

    def _begin_anew(self) -> None:
        self.base, self.length, self.guess, self.batch = self.last, 0, 0, 0

    def _begin(self, epoch: int) -> None:
        self.guess = max(self.guess, self.batch)
        self.epoch, self.batch, self.over = epoch, 0, False

    def enter(self, number: int, bar: Batch) -> None:
        """A bar names its epoch, whether it has the metric or not."""
        if self.first is None:
            # Lightning counts from 0. Where the beginning was not seen, the count is taken that does not go back.
            from_one = number == 1 if self.last == 0 else (number - 1) * (bar.of or 0) + bar.number >= self.last
            self.first = int(number > 0 and from_one)
        if number < self.first:
            self.first = 0
        self.headed = False
        epoch = number - self.first
        if self.epoch is not None and epoch < self.epoch:
            self._begin_anew()
        if epoch != self.epoch:
            self._begin(epoch)

    def _without_epoch(self, bar: Batch) -> None:
        if bar.number < self.batch:
            self.base = self.last  # a new bar
        elif self.batch == 0 and bar.of and self.last:
            self.base = self.last // bar.of * bar.of
            self.base += bar.of if self.base + bar.number < self.last else 0


class Reader:
    """Reads the output of one worker, line by line."""

    def __init__(self, metric: Metric, step: int, from_beginning: bool) -> None:
        """`step` is the last one known of the job. InvalidSpec if the metric's pattern is not one that may be used."""
        self._name, self._usual = metric.name, usual_pattern(metric.name)
        self._own = compile_pattern(metric.pattern) if metric.pattern else None
        self._steps = _Steps(0 if from_beginning else step)
        self._step = step
        self._value: float | None = None

    def read(self, text: str, ended: bool) -> tuple[int, float] | None:
        """(step, value) if the line has them; `ended`: it will not be written over."""
        if header := _HEADER.match(text):
            self._steps.header(int(header[1]))
            return None
        batch = batch_in(text)
        if batch and batch.epoch is not None:
            self._steps.enter(batch.epoch, batch)
        value = self._find(text, batch is not None)
        if value is None:
            return None
        step = self._steps.at(batch, ended) if batch else self._plain(text)
        if step is None or (batch and (step, value) == (self._step, self._value)):
            return None
        self._step, self._value = step, value
        return step, value

    def _plain(self, text: str) -> int:
        found = _PLAIN_STEP.search(text)
        return int(found[1]) if found else self._step + 1

    def _find(self, text: str, is_bar: bool) -> float | None:
        if self._own:
            match = self._own.search(text)
            return _float(match[1]) if match else None
        for found in self._usual.finditer(text):
            if not is_foreign(text[: found.start()]):
                return _float(found[1])
        return self._in_bar(text) if is_bar else None

    def _in_bar(self, text: str) -> float | None:
        """Lightning's bar has the names that the program gave: `train_loss_step=0.31` is its loss."""
        fits = [
            (fit, found.start(), found[2])
            for found in _NAMED.finditer(text)
            if (fit := likeness(self._name, found[1])) is not None
        ]
        return _float(min(fits)[2]) if fits else None


def _float(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
