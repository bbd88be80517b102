"""Parts of a page that the server draws: markup that is patched into the browser's in place, and charts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nicegui import ui
from nicegui.element import Element

from schedulearn.dashboard.views.markup import Safe, join


class Live(Element, component="live.js"):
    """Shows markup. What changes in it is changed there alone: focus, selection and scrolling stay where they are."""

    def __init__(self, markup: Safe | None = None, tag: str = "div") -> None:
        super().__init__()
        self._props["tag"] = tag
        self._markup = markup or Safe("")
        self._props["markup"] = str(self._markup)

    def show(self, markup: Safe) -> None:
        """Nothing is sent if it is what is shown already."""
        if markup != self._markup:
            self._markup = markup
            self._props["markup"] = str(markup)
            self.update()


def heading(text: str) -> Live:
    return Live(join(text), tag="h2")


@contextmanager
def section(title: str, kind: str = "") -> Iterator[None]:
    """A panel; what is made inside of it is its content."""
    with ui.element("section").classes(f"panel {kind}"):
        heading(title)
        yield


@contextmanager
def columns() -> Iterator[tuple[ui.element, ui.element]]:
    """A wide column, and a narrow one beside it."""
    with ui.element("div").classes("columns wide"):
        yield ui.element("div").classes("main"), ui.element("div").classes("side")


def action(words: str, act: Callable[[], Any], kind: str = "") -> ui.button:
    """One of the buttons that do something with what a page shows."""
    return ui.button(words, on_click=act, color=None).props("outline no-caps dense").classes(f"action {kind}")


def redraw(chart: ui.echart, option: Mapping[str, Any]) -> None:
    """The chart as this option has it. How far it is zoomed in stays, unless the option says otherwise."""
    chart.options.clear()
    chart.options.update(option)
    chart.update()


class Output(Element, component="output.js"):
    """Text that grows at its end, and is followed as long as the reader stays there."""

    def add(self, text: str) -> None:
        if text:
            self.run_method("add", text)

    def clear_text(self) -> None:
        self.run_method("clear")
