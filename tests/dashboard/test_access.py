"""Pages for everybody: names for who cannot see, colours that can be read, a focus that the eye can follow."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from schedulearn.client import Client
from schedulearn.dashboard.views.parts import colour, contrast_with_white
from support.browser import Browser, Page
from support.service import Service
from support.waiting import wait_until

from .conftest import submit

USED = {  # what somebody does something with, or looks at instead of reading
    "button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "img", "image", "slider",
    "progressbar", "group", "article", "table", "navigation", "dialog", "log",
}  # fmt: skip
NAMELESS = {"group"}  # a list of choices need not be named if each of them is
# Texts that are too faint: [contrast, text, colour, background]. Backgrounds lie over each other, as do opacities.
_FAINT = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((x, i) => x * a + below[i] * (1 - a));
  const light = colour => colour.map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const above = e => e.parentElement ? [...above(e.parentElement), e] : [e];
  const ground = e => above(e).map(one => rgba(getComputedStyle(one).backgroundColor))
    .reduce((found, colour) => over(colour, found), [255, 255, 255]);
  const solid = e => above(e).reduce((found, one) => found * getComputedStyle(one).opacity, 1);
  const faint = [];
  const look = (e, words, style, most) => {
    const below = ground(e), [r, g, b, a] = rgba(e.closest('svg') ? style.fill : style.color);
    const shown = over([r, g, b, a * solid(e) * (most < 4 ? style.opacity : 1)], below);
    const [dark, bright] = [light(shown), light(below)].sort((x, y) => x - y);
    const found = (bright + 0.05) / (dark + 0.05);
    if (found < most) faint.push([found.toFixed(2), words, style.color, below.join()]);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement, words = texts.currentNode.data.trim(), style = getComputedStyle(e);
    const seen = e.getClientRects().length && style.visibility !== 'hidden';
    const idle = e.closest('script, style, noscript, [aria-hidden=true], [disabled]');
    // White words lie on the bars of the timeline, whose colours are chosen for that.
    const onBar = e.closest('svg') && style.fill === 'rgb(255, 255, 255)';
    if (words && seen && !idle && !onBar) look(e, words, style, 4.5);
  }
  for (const e of document.querySelectorAll('[placeholder]')) {
    const words = !e.value && e.getClientRects().length && e.placeholder;
    if (words) look(e, words, getComputedStyle(e, '::placeholder'), 3);
  }
  return faint;
})()"""
# Whether what has the focus looks different for that: an outline of its own, or the frame of the field around it.
_SEEN = """(e => {
  const style = getComputedStyle(e), field = e.closest('.q-field');
  if (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1) return true;
  if (style.boxShadow !== 'none') return true;
  return !!field && field.classList.contains('q-field--focused');
})(document.activeElement)"""
_WHICH = "(e => e === document.body ? '' : e.outerHTML.slice(0, 200))(document.activeElement)"


@pytest.fixture(scope="module")
def places(service: Service) -> dict[str, str]:
    """Every page with something on it, and a word that is there when it is complete."""
    with service.client() as client:
        cores = client.nodes()[0]["capacity"]["cpus"]
        broken = submit(client, "broken", "raise SystemExit(3)")
        client.wait(broken)
        learns = submit(client, "learns", steps=30)
        submit(client, "waits", resources={"cpus": cores})
        folder = service.data / "reports" / "fixed-3"
        folder.mkdir(parents=True)
        (folder / "report.html").write_text("<h1>a report</h1>")
        told = {
            "title": "Three jobs",
            "columns": ["policy", "time"],
            "rows": [["fifo", "3 s"]],
            "best": [[False, True]],
        }
        (folder / "report.json").write_text(json.dumps({"kind": "experiment", "about": "Three.", **told}))
        wait_until(lambda: (client.job(learns)["progress"] or {}).get("step") == 30, 60, "it has learned")
    return {
        "/": "waits", "/jobs": "learns", f"/jobs/{learns}": "Over time", "/timeline": "broken",
        "/submit": "Enter a command", "/policies": "current", "/results": "Three jobs",
        "/results/fixed-3": "Report", "/nowhere": "There is no such page",
    }  # fmt: skip


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Client]:
    with service.client() as made:
        yield made


def tree(page: Page) -> list[tuple[str, str]]:
    """Role and name of all that a screen reader is told of, as the browser itself computes them."""
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    return [(_value(n, "role"), _value(n, "name")) for n in nodes if not n.get("ignored")]


def _value(node: dict[str, Any], key: str) -> str:
    return str(node.get(key, {}).get("value", "")).strip()


def speaks(page: Page, path: str) -> None:
    seen = tree(page)
    roles = [role for role, _ in seen]
    assert [role for role, name in seen if role in USED - NAMELESS and not name] == [], path
    assert roles.count("main") == 1, path
    assert "heading" in roles, path
    assert page.script("document.documentElement.lang").startswith("en"), path
    assert page.count("img:not([alt])") == 0, path
    assert page.script("document.title").endswith("Schedulearn"), path


def test_every_page_can_be_heard_and_read(page: Page, places: dict[str, str], service: Service) -> None:
    for path, word in places.items():
        page.open(service.url + path)
        page.wait_for(word)
        speaks(page, path)
        can_be_read(page, path)
    page.problems.clear()  # the browser itself notes the 404


def test_what_is_wrong_in_a_form_can_be_read(page: Page, service: Service) -> None:
    page.open(f"{service.url}/submit")
    page.fill("[name=priority]", "high")
    page.wait_for("a whole number, 0 to 100")
    can_be_read(page, "/submit")


def can_be_read(page: Page, what: str) -> None:
    for theme in ("light", "dark"):
        page.resize(1280, dark=theme == "dark")
        is_at_rest(page, theme)
        assert page.script(_FAINT) == [], (what, theme)


def is_at_rest(page: Page, theme: str) -> None:
    """Colours glide from one theme to the other; nothing may be on its way when it is measured."""
    ready = f"!document.getAnimations().length && document.documentElement.dataset.theme === '{theme}'"
    wait_until(lambda: page.script(ready), 60, f"it is {theme}")


def test_logging_in_is_for_everybody(browser: Browser, service: Service) -> None:
    with browser.page() as page:
        for dark in (False, True):
            page.resize(1280, dark=dark)
            for address, word in (("/login?once=wrong", "This link logs you in"), ("/login", "Token")):
                page.open(service.url + address)
                page.wait_for(word)
                speaks(page, address)
                assert page.script(_FAINT) == [], address
        assert page.script("document.activeElement.id") == "token"


def test_the_eye_can_follow_the_keyboard(page: Page, places: dict[str, str], service: Service) -> None:
    for path in (path for path in places if path in ("/", "/jobs", "/timeline", "/submit", "/policies")):
        page.open(service.url + path)
        page.wait_for(places[path])
        for _ in range(30):
            page.press("Tab")
            assert page.script(_SEEN) or not page.script(_WHICH), (path, page.script(_WHICH))


def test_dialogs_can_be_heard_and_read_too(page: Page, places: dict[str, str], service: Service) -> None:
    job = next(path for path, word in places.items() if word == "Over time")
    page.open(service.url + job)
    for button in ("Workers", "CPU limit", "Delete"):
        page.click(button)
        page.wait_for("Back")
        seen = tree(page)
        assert [role for role, name in seen if role in USED - NAMELESS and not name] == [], button
        assert "dialog" in [role for role, _ in seen], button
        wait_until(lambda: page.script("!!document.activeElement.closest('.q-dialog')"), 60, "the focus is in it")
        can_be_read(page, button)
        page.press("Escape")
        wait_until(lambda: page.count(".dialog") == 0, 60, "it is closed")


@pytest.mark.parametrize("saturation", [52, 30])
def test_white_words_can_be_read_on_the_colour_of_every_job(saturation: int) -> None:
    for job in range(1, 400):
        hue, percent, light = (int(x.rstrip("%")) for x in colour(job, saturation)[4:-1].split(","))
        assert percent == saturation
        assert contrast_with_white(hue, saturation, light) >= 4.5
    assert colour(1) != colour(2) != colour(3)
