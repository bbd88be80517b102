"""Text from others in one line, with nothing hidden in it."""

import re
import unicodedata

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls, marks that cannot be seen (such as those that turn the direction)
_SPACES = "\t\n\v\f\r\x85\u2028\u2029"
NOT_ASCII = re.compile(r"[^ -~]")
# Colours and other commands to a terminal.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def clean(text: object) -> str:
    """One line in which everything is seen: spaces for breaks, and an escape such as \\x1b for what is hidden."""
    return NOT_ASCII.sub(visible, str(text))


def visible(match: re.Match[str]) -> str:
    if match[0] in _SPACES:
        return " "
    return _escape(match[0]) if unicodedata.category(match[0]) in HIDDEN else match[0]


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
