"""Files that are a list of numbers, such as the distribution that the Gittins index is made of."""

from pathlib import Path

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces.fields import BadRow, duration
from schedulearn.lab.traces.table import read_lines

BadNumbers = InvalidSpec  # for the verbs, which know nothing of the domain
_ALLOWED = "a file with one number a line, below a header or without one"


def read_numbers(path: Path) -> tuple[float, ...]:
    """Ascending, from a file with one number a line below a header (or none): the GPU-times of Tiresias, say.

    A distribution with holes would be a wrong one: a line that is no number is an error, not a warning.
    """
    rows = [(line, text.strip()) for line, text in enumerate(read_lines(path), 1) if text.strip()]
    if rows and _is_header(rows[0][1]):
        rows.pop(0)
    if not rows:
        raise BadNumbers("numbers", f"{path} has no numbers", _ALLOWED)
    try:
        return tuple(sorted(duration(f"line {line}", text) for line, text in rows))
    except BadRow as error:
        raise BadNumbers("numbers", f"{path}: {error}", _ALLOWED) from error


def _is_header(text: str) -> bool:
    """A header is a word; `nan` and `-5` are bad numbers, to be told as such."""
    try:
        float(text)
    except ValueError:
        return text[:1].isalpha() or text[:1] in '"_'
    return False
