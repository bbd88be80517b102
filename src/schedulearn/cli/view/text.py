"""Text on a terminal: how wide it is, shortened or broken to fit. Chinese signs and emoji take two columns each."""

import re
from collections.abc import Callable, Iterator

Paint = Callable[[str, str], str]  # the text, and a style for it

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}


def coloured(text: str, style: str) -> str:
    """With the codes that a terminal shows as this style."""
    return "".join(f"\x1b[{_CODES[part]}m" for part in style.split()) + text + "\x1b[0m" if text and style else text


def columns_of(text: str) -> int:
    """How many columns of a terminal it takes; colours take none."""
    if text.isascii() and "\x1b" not in text:
        return len(text)
    from rich.cells import cell_len

    return cell_len(_COLOUR.sub("", text))


def shortened(text: str, room: int) -> str:
    """With an ellipsis where it does not fit."""
    if columns_of(text) <= room:
        return text
    while text and columns_of(text) > room - 1:
        text = text[:-1]
    return text + "…"


def filled(text: str, right: bool, width: int) -> tuple[str, str]:
    """The spaces before and after it that make it as wide as its column."""
    gap = " " * max(0, width - columns_of(text))
    return (gap, "") if right else ("", gap)


def broken(text: str, room: int) -> Iterator[str]:
    """Its lines, broken between words. A longer word stays whole: an address must be copied in one piece."""
    line, *words = text.split(" ")
    for word in words:
        if line.strip() and columns_of(f"{line} {word}") > room:
            yield line.rstrip()
            line = word
        else:
            line = f"{line} {word}"
    yield line
