"""Is a user's regular expression one that may be run over each line of output?"""

from schedulearn.api.body.fields import plainly
from schedulearn.service.progress.pattern import MAX_LENGTH, compile_pattern

__all__ = ["MAX_LENGTH", "check_pattern"]


def check_pattern(text: str) -> str:
    plainly(compile_pattern)(text)
    return text
