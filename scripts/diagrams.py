"""Draw the diagrams of the documentation: `python scripts/diagrams.py` writes a picture for each block of Mermaid.

The site shows those in place of the blocks: its theme would load what draws them from elsewhere. Needs Chromium.
"""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nicegui

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "scripts")]

from site_hooks import DIAGRAMS, diagram_name, diagrams  # noqa: E402

from support.browser import Browser  # noqa: E402

LIBRARY = Path(nicegui.__file__).parent / "elements" / "mermaid" / "dist"
DRAW = """(async source => {
  const {mermaid} = await import("/index.js");
  mermaid.initialize({theme: "neutral", startOnLoad: false, flowchart: {htmlLabels: false}});
  const box = document.createElement("div");
  box.innerHTML = (await mermaid.render("diagram", source)).svg;
  return new XMLSerializer().serializeToString(box.firstChild);
})(%s)"""


def main() -> None:
    DIAGRAMS.mkdir(parents=True, exist_ok=True)
    for old in DIAGRAMS.glob("*.svg"):
        old.unlink()
    with library() as url, Browser() as browser, browser.page() as page:
        page.open(f"{url}/index.js")  # any page of that origin will do
        for source in diagrams():
            drawn = page.script(DRAW % json.dumps(source))
            on_paper = drawn.replace('style="', 'style="background: white; ', 1)  # on a dark page, too
            (DIAGRAMS / diagram_name(source)).write_text(f"{on_paper}\n", "utf-8")


@contextmanager
def library() -> Iterator[str]:
    """The address of the library's files, as long as it is needed."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(LIBRARY))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


if __name__ == "__main__":
    main()
