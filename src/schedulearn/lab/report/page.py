"""A report as one HTML file, with all it needs in it: its look, light and dark, and what it is put together from."""

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from schedulearn import __version__

STYLE = """
:root{color-scheme:light dark;--bg:#fcfcfb;--ink:#1d1d1b;--soft:#6b6a64;--rule:#e4e3dd;--panel:#fff;--row:#f1f0ec;
--warn:#fdf3dc;--best:#0b7a3b;--c0:#2a78d6;--c1:#eb6834;--c2:#1baf7a;--c3:#eda100;--c4:#e87ba4;--c5:#008300;--c6:#4a3aa7;
--c7:#e34948}
@media(prefers-color-scheme:dark){:root{--bg:#1a1a19;--ink:#ecebe6;--soft:#a3a29b;--rule:#373733;--panel:#222220;
--row:#2b2b28;--warn:#3a3221;--best:#5fd08e;--c0:#3987e5;--c1:#d95926;--c2:#199e70;--c3:#c98500;--c4:#d55181;
--c5:#3f9c35;--c6:#9085e9;--c7:#e66767}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1000px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:25px;margin:0}h2{font-size:17px;margin:34px 0 8px}
.sub,.note{color:var(--soft)}.sub{margin:2px 0 0}.note{font-size:13px;margin:6px 0}
.warn{background:var(--warn);border-radius:8px;padding:8px 14px;margin:18px 0 0}.warn p{margin:4px 0}
summary{cursor:pointer;padding:3px 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;width:100%}
th,td{padding:5px 6px;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums}
tr:first-child th{color:var(--soft);font-weight:500}
th:first-child,td:first-child,.words th,.words td{text-align:left}
.words td{white-space:normal;vertical-align:top}.words td:first-child{white-space:nowrap}
th[scope=row]{font-weight:600}
.best{color:var(--best);font-weight:700}.best::after{content:" ★";font-size:10px}td:not(.best)::after{content:"  "}
.legend{position:sticky;top:0;background:var(--bg);padding:10px 0;margin-top:22px;display:flex;flex-wrap:wrap;
gap:4px 6px;border-bottom:1px solid var(--rule);align-items:center;z-index:1}
.legend button{font:13px system-ui,sans-serif;color:var(--ink);background:none;border:1px solid var(--rule);
border-radius:14px;padding:2px 10px;cursor:pointer;display:flex;align-items:center;gap:6px}
.legend button[aria-pressed=false]{opacity:.4;text-decoration:line-through}
.legend svg{width:24px;height:8px}.legend .note{margin-left:6px}
figure{margin:0;background:var(--panel);border:1px solid var(--rule);border-radius:8px;padding:10px}
figcaption{font-size:13px;color:var(--soft);margin-bottom:4px}
.grid2{display:grid;grid-template-columns:repeat(auto-fit,minmax(330px,1fr));gap:12px}
svg{display:block;width:100%;height:auto;font:11px system-ui,sans-serif}
.grid{stroke:var(--rule);stroke-width:1;fill:none}.tick,.axis{fill:var(--soft)}.name,.value{fill:var(--ink);font-size:12px}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.line:hover{stroke-width:3.5}.d1{stroke-dasharray:7 3}
.d2{stroke-dasharray:2 3}.row{fill:var(--row)}.job{opacity:.85}.job:hover{opacity:1;stroke:var(--ink)}
.off{display:none}.mark{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:3 3;opacity:.55}
.keys{font-size:12px;color:var(--soft);display:flex;flex-wrap:wrap;gap:2px 12px;margin-top:6px}
.keys svg{display:inline-block;width:14px;height:8px;margin-right:4px}
pre{background:var(--row);padding:10px 12px;border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;
font-size:13px}
""" + "".join(f".line.s{k}{{stroke:var(--c{k})}}.bar.s{k},.job.s{k}{{fill:var(--c{k})}}\n" for k in range(8))

SCRIPT = """
for (const key of document.querySelectorAll('.legend button')) key.addEventListener('click', () => {
  const shown = key.getAttribute('aria-pressed') !== 'true'
  key.setAttribute('aria-pressed', shown)
  for (const line of document.querySelectorAll(`polyline[data-series="${key.dataset.series}"]`))
    line.classList.toggle('off', !shown)
})
"""


def document(title: str, sections: Iterable[str], script: str = "") -> str:
    """The whole page; sections that have nothing to show are empty."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} – Schedulearn</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(sections)}</main>{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of words, which may wrap."""
    top = "".join(f"<th>{escape(word)}</th>" for word in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class=scroll><table class=words><tr>{top}</tr>{body}</table></div>"


def note(words: str) -> str:
    return f"<p class=note>{escape(words)}</p>"


def made_by(command: Sequence[str]) -> str:
    """The command that makes the same report again, and when this one was made."""
    when = note(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, schedulearn {__version__}")
    return f"<pre>{escape(shlex.join(command))}</pre>{when}"
