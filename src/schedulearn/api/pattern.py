"""Is a user's regular expression safe to run over each line of output? A bad one could freeze the service."""

import re

from schedulearn.api.fields import invalid

MAX_LENGTH = 500
_MAX_REPEATS = 6
_ALLOWED = "a regular expression with one group, such as 'val_loss=([0-9.]+)'"


def check_pattern(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise invalid(f"it has {len(text)} characters", f"at most {MAX_LENGTH}")
    try:
        groups = re.compile(text).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise invalid(f"it is no regular expression: {error}", _ALLOWED) from None
    if groups != 1:
        raise invalid(f"it has {groups} groups", "exactly one group, around the number; (?:…) groups without catching")
    repeats, nested = _repeats(text)
    if nested:
        raise invalid(
            "a repetition inside a repetition may take forever", "no *, +, ? or | in a group that is repeated"
        )
    if repeats > _MAX_REPEATS:
        raise invalid(f"it has {repeats} open-ended repetitions (*, +, {{n,}})", f"at most {_MAX_REPEATS}")
    return text


def _repeats(pattern: str) -> tuple[int, bool]:
    """How many open-ended repetitions there are, and whether a group that may match in many ways is repeated."""
    count, nested = 0, False
    groups = [False]  # for each open group: may it match the same text in more than one way?
    many = False  # and the group that ended just before this place?
    for token in _TOKEN.findall(pattern):
        counted = token.startswith("{") and len(token) > 1
        nested |= many and (counted or token in "*+")
        count += token in ("*", "+") or token.endswith(",}")
        many = False
        if token.startswith("("):
            groups.append(False)
        elif token == ")" and len(groups) > 1:
            many = groups.pop()
            groups[-1] |= many
        elif counted or token in "*+?|":
            groups[-1] = True
    return count, nested


# An escape, a class, a count, the beginning of a group, or else one character.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*(?:,\d*)?\}|\((?:\?(?:P<\w+>|:|=|!|<=|<!))?|.", re.DOTALL)
