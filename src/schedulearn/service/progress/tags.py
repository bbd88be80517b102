"""Which of a program's own names for its figures means the job's metric.

A name is taken apart into words. `train` and the like, and words that say how often it is written (`epoch`, `step`, …),
may be there or not; what is left must be the metric's own words. A figure of validation is never one of training:
`val_loss`, `Loss/val`, and any `loss` in a folder `validation` mean `val_loss`, not `loss`.
"""

import re
from pathlib import PurePosixPath
from typing import NamedTuple

_KINDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "eval", "evaluation", "dev"), "val"),
    "test": "test",
}
_OFTEN = frozenset({"step", "batch", "iter", "iteration"})
_SELDOM = frozenset({"epoch"})
_SAME = {"acc": "accuracy"}
_WORD = re.compile(r"[^\W_]+")


class _Meaning(NamedTuple):
    kind: str
    words: tuple[str, ...]


def likeness(metric: str, name: str, folder: str = "") -> int | None:
    """How well a name in a file of this folder fits the metric: 0 best, 3 worst, None not at all."""
    words = _words(name)
    wanted, found = _meaning(_words(metric), ""), _meaning(words, folder)
    if not wanted.words or wanted != found:
        return None
    if name.casefold() == metric.casefold():
        return 0
    if _SELDOM.intersection(words):
        return 3
    return 2 if _OFTEN.intersection(words) else 1


def full_name(name: str, folder: str) -> str:
    """Under which a figure is kept that is not the metric: with its folder where that says that it is another one."""
    kind = _kind(_words(PurePosixPath(folder).name))
    return name if kind in (None, "train") else f"{PurePosixPath(folder).name}/{name}"


def is_foreign(before: str) -> bool:
    """Whether the words before a metric's name say that it is of validation or of a test."""
    words = _words(before[-24:])
    return bool(words) and _KINDS.get(words[-1], "train") != "train"


def _words(name: str) -> tuple[str, ...]:
    return tuple(_SAME.get(word, word) for word in _WORD.findall(name.casefold()))


def _kind(words: tuple[str, ...]) -> str | None:
    return next((_KINDS[word] for word in words if word in _KINDS), None)


def _meaning(words: tuple[str, ...], folder: str) -> _Meaning:
    kind = _kind(words) or _kind(_words(PurePosixPath(folder).name)) or "train"
    return _Meaning(kind, tuple(w for w in words if w not in _KINDS and w not in _OFTEN and w not in _SELDOM))
