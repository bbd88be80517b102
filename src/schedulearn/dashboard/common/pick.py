"""A file that the reader picks, as text."""

from collections.abc import Callable

from nicegui.element import Element
from nicegui.events import GenericEventArguments


class Pick(Element, component="pick.js"):
    """Its text is kept here until another one is picked. No file is written anywhere."""

    def __init__(self, label: str, most: int, on_picked: Callable[[], None]) -> None:
        """At most so many bytes; of a larger file there is its name and size alone."""
        super().__init__()
        self._props["label"], self._props["most"] = label, most
        self._most, self._on_picked = most, on_picked
        self.file, self.size, self.text = "", 0, ""
        self.on("piece", self._take)

    @property
    def too_large(self) -> bool:
        return self.size > self._most

    def _take(self, event: GenericEventArguments) -> None:
        piece = event.args
        if piece["first"]:
            self.text = ""
        self.file, self.size = str(piece["name"])[:100], int(piece["size"])
        self.text = (self.text + str(piece["text"]))[: self._most]
        if piece["last"]:
            self._on_picked()
