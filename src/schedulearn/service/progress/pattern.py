"""A user's own pattern for the metric. It is matched by RE2: a line costs time in proportion to its length, whatever
the pattern is, where Python's own engine may take longer than a lifetime."""

from typing import Protocol

from schedulearn.core.domain.errors import InvalidSpec

MAX_LENGTH = 500
_FIELD = "metric.pattern"
_LARGEST = 1500  # instructions of the program that it becomes: what a character may cost
_MEMORY = 1 << 18  # bytes that RE2 may use for one
_ALLOWED = (
    "a regular expression of RE2 with one group, such as 'val_loss=([0-9.]+)'; no look-around, no back-references"
)


class Match(Protocol):
    def __getitem__(self, group: int) -> str | None: ...


class Pattern(Protocol):
    def search(self, text: str) -> Match | None: ...


def compile_pattern(text: str) -> Pattern:
    """InvalidSpec if it is not one that may be used."""
    import re2  # most jobs have no pattern of their own: only a job that has one pays for it

    if len(text) > MAX_LENGTH:
        raise InvalidSpec(_FIELD, f"it has {len(text)} characters", f"at most {MAX_LENGTH}")
    options = re2.Options()
    options.max_mem, options.log_errors = _MEMORY, False
    try:
        pattern = re2.compile(text, options)
    except (re2.error, UnicodeError) as error:
        raise InvalidSpec(_FIELD, f"it cannot be used: {_words(error)}", _ALLOWED) from None
    if pattern.groups != 1:
        allowed = "exactly one group, around the number; (?:…) groups without catching"
        raise InvalidSpec(_FIELD, f"it has {pattern.groups} groups", allowed)
    if pattern.programsize > _LARGEST:
        raise InvalidSpec(
            _FIELD, "it is too large", "fewer or smaller repetitions such as {100} and classes such as \\pL"
        )
    found: Pattern = pattern
    return found


def _words(error: Exception) -> str:
    """RE2 says it in bytes."""
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
