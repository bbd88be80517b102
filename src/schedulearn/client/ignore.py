"""Which files git would leave out: the rules of `.gitignore`, as git itself applies them.

Names are bytes, as they are for git: `?` stands for one byte. The last rule that matches wins, and the rules of
a deeper folder stand after those of the folders above it. A file in a folder that is left out cannot be brought back.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_CLASSES = {
    b"alnum": re.compile(rb"[0-9A-Za-z]"),
    b"alpha": re.compile(rb"[A-Za-z]"),
    b"blank": re.compile(rb"[ \t]"),
    b"cntrl": re.compile(rb"[\x00-\x1f\x7f]"),
    b"digit": re.compile(rb"[0-9]"),
    b"graph": re.compile(rb"[\x21-\x7e]"),
    b"lower": re.compile(rb"[a-z]"),
    b"print": re.compile(rb"[\x20-\x7e]"),
    b"punct": re.compile(rb"[!-/:-@\[-`{-~]"),
    b"space": re.compile(rb"[ \t\n\v\f\r]"),
    b"upper": re.compile(rb"[A-Z]"),
    b"xdigit": re.compile(rb"[0-9A-Fa-f]"),
}
_NEVER = rb"(?!)"
_SPECIAL = re.compile(rb"[*?\[\\]")


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: re.Pattern[bytes]
    negated: bool  # `!`: what it matches is kept
    folders_only: bool  # ends with `/`
    by_name: bool  # has no other slash: it is compared with the last part of the path, at any depth


def parse_rules(text: bytes) -> list[Rule]:
    """The rules of one `.gitignore` file, in its order."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [rule for line in lines if (rule := _parse_line(line.removesuffix(b"\r")))]


def _parse_line(line: bytes) -> Rule | None:
    if line.startswith(b"#"):
        return None
    line = _without_trailing_spaces(line)
    negated = line.startswith(b"!")
    line = line[negated:]
    folders_only = line.endswith(b"/")
    if folders_only:
        line = line[:-1]
    by_name = b"/" not in line
    line = line.removeprefix(b"/")
    if not line:
        return None
    return Rule(re.compile(translate(line), re.DOTALL), negated, folders_only, by_name)


def _without_trailing_spaces(line: bytes) -> bytes:
    """Spaces at the end do not count, unless a backslash stands before them."""
    end = at = 0
    while at < len(line):
        if line[at : at + 1] == b"\\":
            at += 1
            if at == len(line):
                return line
            end = at + 1
        elif line[at : at + 1] != b" ":
            end = at + 1
        at += 1
    return line[:end]


def translate(glob: bytes) -> bytes:
    """A pattern of git as a regular expression for the whole path (or name)."""
    out = []
    at = 0
    while at < len(glob):
        char = glob[at : at + 1]
        if char == b"*":
            piece, at = _stars(glob, at)
        elif char == b"?":
            piece, at = rb"[^/]", at + 1
        elif char == b"[":
            piece, at = _bracket(glob, at + 1)
        elif char == b"\\":
            literal = glob[at + 1 : at + 2]
            piece, at = re.escape(literal) if literal else _NEVER, at + 2
        else:
            piece, at = re.escape(char), at + 1
        out.append(piece)
    return b"".join(out) + rb"\Z"


def _stars(glob: bytes, start: int) -> tuple[bytes, int]:
    """`*` stays within one part of the path; `**` as a whole part stands for any number of parts.

    git compares the plain text before the first wildcard by itself, so that `**` after it starts a part as well.
    """
    end = start
    while glob[end : end + 1] == b"*":
        end += 1
    starts_part = glob[start - 1 : start] == b"/" or not _SPECIAL.search(glob, 0, start)
    rest = glob[end:]
    if end - start == 1 or not starts_part or (rest and not rest.startswith((b"/", b"\\/"))):
        return rb"[^/]*", end
    if rest.startswith(b"/"):
        return rb"(?:.*/)?", end + 1
    return rb".*", end


def _bracket(glob: bytes, at: int) -> tuple[bytes, int]:
    """A set such as `[a-z_]`, from after its `[`. One that does not end, or names no known class, matches nothing."""
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    previous: int | None = None  # what a range may start from
    first = True
    while first or glob[at : at + 1] != b"]":
        first = False
        try:
            previous, at = _bracket_item(glob, at, previous, members)
        except (IndexError, KeyError):
            return _NEVER, len(glob)
    chosen = (set(range(256)) - members if negated else members) - {ord("/")}
    body = b"".join(b"\\x%02x" % byte for byte in sorted(chosen))
    return (b"[" + body + b"]" if body else _NEVER), at + 1


def _bracket_item(glob: bytes, at: int, previous: int | None, members: set[int]) -> tuple[int | None, int]:
    """Add one item of a set; what a range may start from next, and where to go on. IndexError at the end."""
    char = glob[at]
    if char == ord("\\"):
        members.add(glob[at + 1])
        return glob[at + 1], at + 2
    if char == ord("-") and previous is not None and glob[at + 1] != ord("]"):
        at += 2 if glob[at + 1] == ord("\\") else 1
        members.update(range(previous, glob[at] + 1))
        return None, at + 1
    if glob[at : at + 2] == b"[:":
        end = glob.index(b"]", at + 2) if b"]" in glob[at + 2 :] else len(glob)
        name = glob[at + 2 : end]
        if end == len(glob) or name.endswith(b":"):
            known = _CLASSES[name[:-1]]  # KeyError: git knows no such class either
            members.update(byte for byte in range(256) if known.match(bytes([byte])))
            return None, end + 1
    members.add(char)
    return char, at + 1


@dataclass(frozen=True, slots=True)
class Ignore:
    """The rules that hold in one folder: its own, after those of the folders above."""

    layers: tuple[tuple[bytes, tuple[Rule, ...]], ...] = field(default=())  # (folder with its slash, its rules)

    def with_rules(self, folder: bytes, rules: Iterable[Rule]) -> "Ignore":
        """As it is in `folder` (without a slash at the end; empty for the top), which has rules of its own."""
        rules = tuple(rules)
        return Ignore((*self.layers, (folder + b"/" if folder else b"", rules))) if rules else self

    def leaves_out(self, path: bytes, is_folder: bool) -> bool:
        """Whether the last rule that matches the path says so. The folders above it are not looked at."""
        name = path.rpartition(b"/")[2]
        for folder, rules in reversed(self.layers):
            below = path[len(folder) :]
            for rule in reversed(rules):
                if rule.folders_only and not is_folder:
                    continue
                if rule.pattern.match(name if rule.by_name else below):
                    return not rule.negated
        return False
