"""How long every route of the API takes to answer, beside 10,000 queued jobs: the slowest first."""

import http.client
import json
import re
from typing import Any
from urllib.parse import urlsplit

from bench.figures import Figures, median, percentile, timed
from bench.queue import MANY, prepare
from bench.service import Service, folder

_ROUNDS = 20
_SUBMISSION = {"command": "true", "resources": {"cpus": 1}}
_KNOWN = {"job": "1", "name": "local"}  # what there is, for the places in paths
_QUERY = {"follow": "false"}  # what would go on for ever ends at once
_SHOWN = 12  # routes that have rows of their own


def measure() -> Figures:
    figures = Figures(f"each route {_ROUNDS} times, beside {MANY:,} queued jobs: the slowest answers")
    with folder() as root:
        prepare(root / "data", MANY)
        service = Service(root / "data")
        try:
            found = _asked(service)
        finally:
            service.stop()
    for label, seconds in sorted(found.items(), key=lambda one: -max(one[1]))[:_SHOWN]:
        words = f"p50 {median(seconds) * 1e3:.1f} ms, p99 {percentile(seconds, 99) * 1e3:.1f} ms"
        figures.add(label, max(seconds) * 1e3, "ms", against=words)
    every = [one for seconds in found.values() for one in seconds]
    figures.add_times(f"all {len(found)} routes", every)
    return figures


def _asked(service: Service) -> dict[str, list[float]]:
    """Every route that can be asked without a change: those that read, and a submission that is only checked."""
    token = json.loads((service.data / "client.json").read_text())["token"]
    caller = Caller(service.url, token)
    description = json.loads(caller.ask("GET", "/api/v1/openapi.json"))
    found = {}
    for label, path in _routes(description):
        found[label] = [timed(lambda path=path: caller.ask("GET", path)) for _ in range(_ROUNDS)]  # type: ignore[misc]
    checked = "/api/v1/jobs?dry_run=true"
    found["POST /jobs?dry_run"] = [timed(lambda: caller.ask("POST", checked, _SUBMISSION)) for _ in range(_ROUNDS)]
    return found


def _routes(description: dict[str, Any]) -> list[tuple[str, str]]:
    routes = []
    for path, methods in description["paths"].items():
        names = re.findall(r"{(\w+)}", path)
        if "get" in methods and all(name in _KNOWN for name in names):
            asked = {parameter["name"] for parameter in methods["get"].get("parameters", ())}
            query = "&".join(f"{name}={value}" for name, value in _QUERY.items() if name in asked)
            routes.append((f"GET {path.removeprefix('/api/v1')}", path.format(**_KNOWN) + (query and f"?{query}")))
    return routes


class Caller:
    """One connection that is kept, as a client keeps it."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        sent = None if body is None else json.dumps(body)
        self._connection.request(method, path, sent, self._headers)
        with self._connection.getresponse() as answer:
            content = answer.read()
        if answer.status >= 500:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
        return content
