"""A real Chromium, driven over its DevTools protocol as a person would use it: look, click, type, wait."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from support.waiting import wait_until

PATIENCE = 60.0
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-port=0", "--lang=en-GB", "--force-color-profile=srgb",
)  # fmt: skip
_FOCUS = "(e => { if (!e) return false; e.focus(); e.select?.(); return true; })(document.querySelector(%s))"
_FIND = """(words => {
  const seen = e => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== 'hidden';
  const named = e => (e.getAttribute('aria-label') || e.innerText || e.value || '').trim();
  const all = [...document.querySelectorAll('a, button, [role=button], [role=option], summary, option')].filter(seen);
  const found = all.find(e => named(e) === words) || all.find(e => named(e).includes(words));
  if (!found) return null;
  found.scrollIntoView({block: 'center'});
  const box = found.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const top = document.elementFromPoint(x, y);  // something else may lie in front of it still
  return top && (found.contains(top) || top.contains(found)) ? [x, y] : null;
})(%s)"""


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("no Chromium here: scripts/system-packages installs it")
    return found


class Browser:
    """One Chromium with a profile of its own."""

    def __init__(self, key: str = "") -> None:
        """`key` is the hash of the one key whose certificate it takes although no authority vouches for it."""
        self._profile = Path(tempfile.mkdtemp(prefix="schedulearn-browser-"))
        self._log = open(self._profile / "log", "wb")  # noqa: SIM115 - for as long as the browser runs
        trusts = [f"--ignore-certificate-errors-spki-list={key}"] if key else []
        command = [chromium(), *FLAGS, *trusts, f"--user-data-dir={self._profile}/data", "about:blank"]
        env = {**os.environ, "HOME": str(self._profile)}
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=env, start_new_session=True)
        wait_until(self._port, PATIENCE, "Chromium listens")

    def _port(self) -> int:
        found = re.search(rb"ws://127.0.0.1:(\d+)/", (self._profile / "log").read_bytes())
        if self._process.poll() is not None:
            raise AssertionError((self._profile / "log").read_text(errors="replace"))
        return int(found[1]) if found else 0

    def page(self) -> "Page":
        """A new window, without cookies of others."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port()}/json/version") as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        return Page(address)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._log.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests of a process: what its windows keep is not shared."""
    with Browser() as running:
        yield running


class Page:
    """One window. What went wrong in it (errors, refused content) is in `problems`."""

    def __init__(self, address: str) -> None:
        self._open = ExitStack()
        self._socket: ClientConnection = self._open.enter_context(connect(address, max_size=None, ping_interval=None))
        self._serial, self._session = 0, ""
        self.problems: list[str] = []
        self.requests: list[str] = []  # every address that was asked for
        self.sockets: dict[str, str] = {}  # every web socket that was asked for: its address
        self.open_sockets: list[str] = []  # the addresses of those that were answered as they should be
        context = self.call("Target.createBrowserContext")["browserContextId"]
        self._target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """A command of the protocol, and its answer; events that come meanwhile are noted."""
        self._serial += 1
        message = {"id": self._serial, "method": method, "params": params}
        self._socket.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        while True:
            answer = json.loads(self._socket.recv(PATIENCE))
            if answer.get("id") == self._serial:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.problems.append(str(details.get("exception", {}).get("description") or details["text"]))
            case "Log.entryAdded" if "net::ERR_NETWORK_CHANGED" in params["entry"]["text"]:
                pass  # Chromium drops requests whenever a bridge comes or goes: containers of other tests, not the page
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Network.webSocketCreated":
                self.sockets[params["requestId"]] = params["url"]
            case "Network.webSocketHandshakeResponseReceived" if params["response"]["status"] == 101:
                self.open_sockets.append(self.sockets[params["requestId"]])

    # --- looking

    def script(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def _see(self, expression: str) -> Any:
        """What only looks may be asked again where the page went away under the question."""
        return wait_until(lambda: self._seen(expression), PATIENCE, expression)[0]

    def _seen(self, expression: str) -> tuple[Any] | None:
        try:
            return (self.script(expression),)
        except AssertionError as error:
            if "navigated" not in str(error):
                raise
            return None

    @property
    def text(self) -> str:
        """What a person can read."""
        return str(self._see("document.body ? document.body.innerText : ''"))

    @property
    def address(self) -> str:
        return str(self._see("location.pathname + location.search"))

    def count(self, selector: str) -> int:
        return int(self._see(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def text_of(self, selector: str) -> str:
        return str(self._see(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def wait_for(self, words: str) -> None:
        """Until it can be read."""
        wait_until(lambda: words in self._text_or_nothing(), PATIENCE, f"{words!r} in:\n{self._text_or_nothing()}")

    def wait_without(self, words: str) -> None:
        wait_until(lambda: words not in self._text_or_nothing(), PATIENCE, f"no {words!r}")

    def _text_or_nothing(self) -> str:
        try:
            return self.text
        except AssertionError:  # between two pages there is nothing to read
            return ""

    def cookies(self) -> list[dict[str, Any]]:
        return list(self.call("Network.getCookies")["cookies"])

    # --- doing

    def open(self, url: str) -> "Page":
        self.call("Page.navigate", url=url)
        wait_until(lambda: self._loaded(), PATIENCE, f"{url} is loaded")
        return self

    def log_in(self, link: str) -> "Page":
        """With a link that is good once."""
        self.open(link)
        self.click("Log in")
        return self

    def _loaded(self) -> bool:
        try:
            return bool(self.script("document.readyState === 'complete' && location.href !== 'about:blank'"))
        except AssertionError:
            return False

    def click(self, words: str) -> None:
        """On the link or button that is called so, as soon as it is there."""
        self._press(wait_until(lambda: self._at_rest(_FIND % json.dumps(words)), PATIENCE, f"{words!r} to click"))

    def click_on(self, selector: str) -> None:
        """In the middle of what has no words to be called by."""
        middle = "(b => b && b.width ? [b.x + b.width / 2, b.y + b.height / 2] : null)"
        box = f"{middle}(document.querySelector({json.dumps(selector)})?.getBoundingClientRect())"
        self._press(wait_until(lambda: self._at_rest(box), PATIENCE, f"{selector} to click"))

    def _press(self, placement: Any) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=placement[0], y=placement[1], button=button, clickCount=1
            )

    def _at_rest(self, where: str) -> Any:
        """The placement, once it no longer moves."""
        before = self.script(where)
        time.sleep(0.05)
        return before if before and before == self.script(where) else None

    def fill(self, selector: str, text: str) -> None:
        """Into a field, in place of what it holds."""
        wait_until(lambda: self.script(_FOCUS % json.dumps(selector)), PATIENCE, f"a field {selector}")
        self.call("Input.insertText", text=text)

    def pick(self, selector: str, file: Path) -> None:
        """A file, into a field that asks for one."""
        wait_until(lambda: self.count(selector), PATIENCE, f"a field {selector}")
        found = self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")
        self.call("DOM.setFileInputFiles", files=[str(file)], objectId=found["result"]["objectId"])

    def press(self, key: str) -> None:
        codes = {"Enter": 13, "Tab": 9, "Escape": 27}
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key],
                **(more if kind == "keyDown" else {}),
            )  # fmt: skip

    def resize(self, width: int, height: int = 900, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path, most: int = 10_000) -> None:
        """The whole page, or so many pixels of it from the top."""
        height = min(most, self.call("Page.getLayoutMetrics")["cssContentSize"]["height"])
        clip = {"x": 0, "y": 0, "width": self.script("innerWidth"), "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def heap(self) -> float:
        """Bytes that its scripts hold."""
        self.call("HeapProfiler.collectGarbage")
        return float(self.call("Runtime.getHeapUsage")["usedSize"])

    def close(self) -> None:
        self._session, target = "", self._target
        self.call("Target.closeTarget", targetId=target)
        self._open.close()

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
