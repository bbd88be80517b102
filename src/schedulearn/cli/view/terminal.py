"""What text from others may do to the reader's terminal: show itself, in colours. Nothing else gets through.

A job's output, its name, or an error that quotes them could otherwise set the clipboard, rename the window, ask the
terminal to type an answer into the shell, or paint over lines that others wrote.
"""

import codecs
import json
import re
import unicodedata

from schedulearn.wire.clean import HIDDEN, NOT_ASCII, visible

_CONTROL_IN_JSON = re.compile(r"[^\x00-~]")  # what is below a space is escaped by `json` itself

_SHOWN = re.compile(r"[^\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]+")  # \b, \t, \n and \r stay on the line, or end it
_ESCAPE = re.compile(
    r"\x1b(?:"
    r"\[(?P<given>[0-?]{0,64})(?P<between>[ -/]{0,4})(?P<final>[@-~])"  # a control sequence
    r"|(?P<string>[\]PX^_k])"  # the beginning of a string: title, clipboard, link, picture, …
    r"|[ -/]{1,4}[0-~]|[0-WYZ\\`-jl-~]"  # any other: reset, character sets, a place that is kept, …
    r")"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,4}|[ -/]{0,4})\Z")
_END_OF_STRING = re.compile(r"[\x07\x18\x1a\x1b\x9c\n]")
_COLOUR = re.compile(r"[0-9;:]*")
_COUNT = re.compile(r"[0-9]{0,4}")
_COLOURED = re.compile(r"\x1b\[[0-9;:]{0,64}m")


def only_colours(text: str) -> str:
    """Lines in colours: whatever else steers a terminal is shown as an escape."""
    shown, at = "", 0
    for colour in _COLOURED.finditer(text):
        shown += _lines(text[at : colour.start()]) + colour[0]
        at = colour.end()
    return shown + _lines(text[at:])


def _lines(text: str) -> str:
    return NOT_ASCII.sub(lambda m: m[0] if m[0] in "\n\t" else visible(m), text)


def json_text(value: object) -> str:
    """JSON that a person can read, and in which nothing hides: what cannot be seen is escaped."""
    return _CONTROL_IN_JSON.sub(_json_escape, json.dumps(value, indent=2, ensure_ascii=False))


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1] if unicodedata.category(match[0]) in HIDDEN else match[0]


class OutputFilter:
    """A job's output on its way to a terminal, chunk by chunk.

    Colours pass, and what progress bars need: going back on the line, erasing it or what is below it, and moving among
    the lines that this output wrote itself, but never above its first. All other sequences are left out.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        # Decoded and encoded again, so that no byte means one thing here and another one to the terminal.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._encoding = encoding
        self._held = ""  # the beginning of a sequence of which the rest has not come yet
        self._in_string = False
        self._above = 0  # lines of its own, at least, from the first one to where the cursor is
        self._painted = False

    def feed(self, data: bytes) -> bytes:
        return self._encoded(self._pass(self._decoder.decode(data)))

    def close(self) -> bytes:
        """The rest; and colours end with the output."""
        rest = self._pass(self._decoder.decode(b"", final=True))
        self._held = ""
        end = "\x1b[0m" if self._painted else ""
        self._painted = False
        return self._encoded(rest + end)

    def _encoded(self, text: str) -> bytes:
        return text.encode(self._encoding, "replace")

    def _pass(self, text: str) -> str:
        text, self._held = self._held + text, ""
        passed: list[str] = []
        at = 0
        while at < len(text):
            if self._in_string:
                at = self._skip_string(text, at)
            elif shown := _SHOWN.match(text, at):
                passed.append(shown[0])
                self._above += shown[0].count("\n")
                at = shown.end()
            elif _UNFINISHED.match(text, at):
                self._held = text[at:]
                break
            elif escape := _ESCAPE.match(text, at):
                passed.append(self._judge(escape))
                at = escape.end()
            else:
                at += 1  # a control character, or an escape that begins nothing
        return "".join(passed)

    def _skip_string(self, text: str, at: int) -> int:
        """Behind the end of the string. A new line ends it too: else a job could hide all that comes after it."""
        if not (end := _END_OF_STRING.search(text, at)):
            return len(text)
        self._in_string = False
        return end.start() if end[0] in "\n\x1b" else end.end()

    def _judge(self, escape: re.Match[str]) -> str:
        """What of a whole sequence may pass."""
        self._in_string = escape["string"] is not None
        given, final = escape["given"], escape["final"]
        if final is None or escape["between"]:
            return ""
        if final == "m" and _COLOUR.fullmatch(given):
            self._painted = given.strip("0") != ""
            return escape[0]
        if (final == "K" and given in ("", "0", "1", "2")) or (final == "J" and given in ("", "0")):
            return escape[0]
        if not _COUNT.fullmatch(given):
            return ""
        if final in "AF":
            return self._up(int(given or 1) or 1, final)
        return escape[0] if final in "BCDEG" else ""

    def _up(self, count: int, final: str) -> str:
        """Up, but never beyond its own first line. A line that the terminal has broken is one to us."""
        count = min(count, self._above)
        self._above -= count
        return f"\x1b[{count}{final}" if count else ""
