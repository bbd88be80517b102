"""HTML without accidents: every text is escaped unless it is markup that was made here."""

from collections.abc import Iterable
from html import escape

_EMPTY = frozenset({"br", "hr", "input", "img", "link", "meta"})
Attribute = str | int | float | bool | None


class Safe(str):
    """A text that is markup already, and is not escaped again."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]


def el(name: str, /, *children: Child, **attributes: Attribute) -> Safe:
    """An element. `class_` is its class, `data_job` becomes `data-job`; None and False leave an attribute out."""
    words = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY:
        return Safe(f"<{name}{words}>")
    return Safe(f"<{name}{words}>{join(*children)}</{name}>")


def join(*children: Child) -> Safe:
    """Several after another; a text among them is escaped, None is nothing."""
    return Safe("".join(_flat(child) for child in children))


def _flat(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Safe):
        return child
    if isinstance(child, str | int):
        return escape(str(child))
    return "".join(_flat(one) for one in child)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
