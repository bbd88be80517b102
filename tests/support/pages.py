"""The pages of the documentation as something that can be run.

Blocks marked `sh` are run, line by line, in one shell for each page. Comments in the page say what a reader sees for
themselves, and a program does not:

    <!-- before: a service -->         at the top: what must be there first (a name of `tests/docs/test_commands.py`)
    <!-- not run: needs a GPU -->      before a block: why it is only parsed
    <!-- ends with 1 -->               before a block: its last line fails, and shows how
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BESIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
PAGES = [*(ROOT / name for name in BESIDE), *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_BEFORE = re.compile(r"^<!-- before: (.*) -->$", re.MULTILINE)
_FILE = re.compile(r'"""([a-z_]+\.py):')


@dataclass(frozen=True)
class Block:
    text: str
    not_run: str = ""  # why
    code: int = 0  # of its last line


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def before(page: Path) -> str:
    found = _BEFORE.search(page.read_text("utf-8"))
    return found[1] if found else ""


def blocks(page: Path) -> list[Block]:
    """The shell's, in their order."""
    found = [match for match in BLOCK.finditer(page.read_text("utf-8")) if match["language"] == "sh"]
    return [_block(match["text"], match["mark"] or "") for match in found]


def _block(text: str, mark: str) -> Block:
    reason = mark.removeprefix("not run: ") if mark.startswith("not run: ") else ""
    code = re.fullmatch(r"ends with (\d+)", mark)
    return Block(text, reason, int(code[1]) if code else 0)


def files(page: Path) -> Iterator[tuple[str, str]]:
    """Python that begins with the name of its file."""
    for match in BLOCK.finditer(page.read_text("utf-8")):
        if match["language"] == "python" and (named := _FILE.match(match["text"])):
            yield named[1], match["text"]


def commands(text: str) -> Iterator[str]:
    """The commands of a block: a line, with what belongs to it (a loop, a here-document, a text over several lines)."""
    lines = iter(text.splitlines())
    for line in lines:
        whole = line
        while not _complete(whole):
            whole += "\n" + next(lines)
        if whole.strip():
            yield whole


def _complete(text: str) -> bool:
    if here := re.search(r"<<'(\w+)'", text):
        return text.endswith(f"\n{here[1]}")
    if text.startswith("for "):
        return len(re.findall(r"^\s*for\b", text, re.MULTILINE)) == len(re.findall(r"^\s*done\b", text, re.MULTILINE))
    return not text.endswith("\\") and text.count("'") % 2 == 0
