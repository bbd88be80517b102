"""The service as a worker calls it: where it is, in whose name, and what is told where it is not trusted."""

from __future__ import annotations

import logging
import os
from http.client import HTTPConnection
from pathlib import Path

from schedulearn.pinned import Address, address_of, distrust

log = logging.getLogger("schedulearn.job")


class Service:
    """For one worker, such as "17.2.0": all its calls are about its attempt."""

    def __init__(self, url: str, token_file: str, worker: str) -> None:
        self.worker = worker
        self._url, self._token_file = url, token_file
        self._complaint = ""  # the last one, so that it is not said again and again

    @property
    def address(self) -> Address:
        """ValueError if the URL is none."""
        return address_of(self._url)

    def send(
        self, connection: HTTPConnection, method: str, path: str, body: str | bytes | None, **headers: str
    ) -> None:
        """A request whose path begins with that of the attempt."""
        token = Path(self._token_file).read_text("utf-8").strip() if self._token_file else ""
        headers |= {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        base = f"{self.address.path}/api/v1/attempts/{self.worker.rpartition('.')[0]}"
        connection.request(method, base + path, body, headers)

    def distrusted(self, problem: BaseException, so: str) -> str:
        """Why what answers is not believed to be the service; "" if the problem is another one.

        Others are away for a while, but one that is not trusted now will not be later: the user has to know.
        """
        why = distrust(problem)
        if why and why != self._complaint:
            self._complaint = why
            log.warning("%s, since what answers is not trusted: %s", so, why)
        return why


def service_from_environment() -> Service | None:
    """None outside of Schedulearn."""
    env = os.environ
    url, worker = env.get("SCHEDULEARN_URL"), env.get("SCHEDULEARN_WORKER")
    return Service(url, env.get("SCHEDULEARN_TOKEN_FILE", ""), worker) if url and worker else None
