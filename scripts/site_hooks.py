"""What mkdocs does not do by itself, for the site of the documentation.

The pages are written to be read where they are, so they link to files beside docs/: README, changes and their like
become pages of the site, and other files are named without a link. Diagrams become pictures, and a click on one shows
it in full size. And nothing of the site leads a browser to another server.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "examples/README.md": "examples.md",
}
DIAGRAMS = ROOT / "docs" / "pictures" / "diagrams"  # drawn by scripts/diagrams.py
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_LINK = re.compile(r"\[([^\]]+)\]\(((?!https?:)[^)\s#]*)(#[^)\s]*)?\)")
_ELSEWHERE = re.compile(r"https://unpkg\.com/[^\"'`]*")  # the theme would load these for old browsers, or diagrams


def on_files(files: Files, config: Any) -> Files:
    for source, name in BESIDE.items():
        content = (ROOT / source).read_text("utf-8")
        made = File.generated(config, name, content=_with_links(content, (ROOT / source).parent, name))
        files.append(made)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    name = page.file.src_uri
    if name in BESIDE.values():
        return markdown
    return _with_links(markdown, (ROOT / "docs" / name).parent, name)


def _with_links(markdown: str, folder: Path, name: str) -> str:
    """Links as they lead from the page `name` of the site; `folder` is where its source is."""
    up = "../" * name.count("/")

    def replaced(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if not target:
            return match[0]
        file = (folder / target).resolve()
        if file.is_relative_to(ROOT / "docs"):
            return f"[{text}]({up}{file.relative_to(ROOT / 'docs')}{anchor})"
        beside = BESIDE.get(str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else "")
        return f"[{text}]({up}{beside}{anchor})" if beside else text

    drawn = _DIAGRAM.sub(
        lambda block: f"![Diagram]({up}pictures/diagrams/{diagram_name(block[1])})", _LINK.sub(replaced, markdown)
    )
    return _PICTURE.sub(r"[\g<0>](\1)", drawn)  # a click shows it in full size


def diagrams() -> Iterator[str]:
    """The sources of all of them."""
    for page in [*(ROOT / source for source in BESIDE), *sorted((ROOT / "docs").rglob("*.md"))]:
        yield from _DIAGRAM.findall(page.read_text("utf-8"))


def diagram_name(source: str) -> str:
    """Of its picture: another one for another source, so that none is shown that is out of date."""
    return f"{hashlib.sha256(source.encode()).hexdigest()[:12]}.svg"


def on_post_build(config: Any) -> None:
    for script in Path(config["site_dir"]).rglob("*.js"):
        text = script.read_text("utf-8")
        if _ELSEWHERE.search(text):
            script.write_text(_ELSEWHERE.sub("about:blank", text), "utf-8")
