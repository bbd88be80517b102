"""Bringing reports to the service, from a thread of its own."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from pathlib import Path

from schedulearn.job.service import Service, service_from_environment
from schedulearn.job.spool import Point, Spool, as_line, number

BATCH = 500  # points in one request
_TIMEOUT = 2.0  # seconds for the service to answer
_LONGEST_BACK_OFF = 15.0
_UNACCEPTABLE = frozenset({400, 413, 422})  # the service will never take these points


class Sender:
    """Sends what the spool holds. When the service is away it tries again later, and less and less often."""

    def __init__(self, service: Service, spool: Spool | None) -> None:
        self._service, self._spool = service, spool
        self._connection: http.client.HTTPConnection | None = None
        self._back_off = 0.0
        self._not_before = 0.0
        self._stuck: list[Point] = []  # numbered points that no disk would take
        self._last_seq = 0
        self._dropped = 0  # points that are gone, of which the spool does not know yet
        self._changing = threading.RLock()  # held for a moment, to change what is stuck
        self._sending = threading.Lock()  # held as long as a request takes

    def hand_over(self, points: list[Point], most: int, dropped: int = 0) -> None:
        """Write points to the spool, and how many were dropped; else keep at most `most` of them in memory."""
        with self._changing:
            points = self._stuck + points
            self._dropped += dropped
            try:
                if self._spool is None:
                    raise OSError("there is no spool")
                self._spool.append(points, self._dropped)
                self._stuck, self._dropped = [], 0
            except OSError:
                stuck = self._stuck + number(points[len(self._stuck) :], self._last_seq)
                self._last_seq = stuck[-1]["seq"]
                self._stuck = thinned(stuck) if len(stuck) > most else stuck
                self._dropped += len(stuck) - len(self._stuck)

    def send(self, until: float, now: bool = False) -> bool:
        """Send what waits, until that time at the latest; whether all is sent. `now`: do not wait for the back-off."""
        if not now and time.monotonic() < self._not_before:
            return False
        if not self._sending.acquire(timeout=min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)):
            return False
        try:
            return self._send_spool(until) and self._send_stuck(until)
        finally:
            self._sending.release()

    def _send_spool(self, until: float) -> bool:
        if self._spool is None:
            return True
        try:
            with self._spool.sending() as mine:
                # If it is not ours to send, another process of this worker does it for all.
                return mine and self._drain(self._spool, until)
        except OSError:
            return bool(self._stuck)  # the disk is not to be used: what is in memory can still go

    def _drain(self, spool: Spool, until: float) -> bool:
        while True:
            batch = spool.next_batch(BATCH)
            if batch.lines and (time.monotonic() > until or not self._post(batch.lines)):
                return False
            spool.confirm(batch)
            if not batch.lines:
                return True

    def _send_stuck(self, until: float) -> bool:
        while batch := self._stuck[:BATCH]:
            if time.monotonic() > until or not self._post([as_line(point) for point in batch]):
                return False
            with self._changing:
                self._stuck = [point for point in self._stuck if point["seq"] > batch[-1]["seq"]]
        return True

    def _post(self, lines: list[bytes]) -> bool:
        """One request. True if the points are done with: taken, or such that the service will never take them."""
        begin = f'{{"worker": {json.dumps(self._service.worker)}, "points": ['
        try:
            status = self._exchange(begin.encode() + b",".join(lines) + b"]}")
        except (OSError, ValueError, http.client.HTTPException) as problem:
            status = 0
            self._service.distrusted(problem, "reports are not sent")
        done = status in _UNACCEPTABLE or 200 <= status < 300
        if done:
            self._back_off = self._not_before = 0.0
        else:
            self.close()
            self._back_off = min(max(0.5, 2 * self._back_off), _LONGEST_BACK_OFF)
            self._not_before = time.monotonic() + self._back_off
        return done

    def _exchange(self, body: bytes) -> int:
        """The status of the answer. A kept connection that the service has closed meanwhile is opened again."""
        kept = self._connection is not None
        try:
            return self._request(body)
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException):
            if not kept:
                raise
            self.close()
            return self._request(body)

    def _request(self, body: bytes) -> int:
        if self._connection is None:
            self._connection = self._service.address.connect(_TIMEOUT)
        self._service.send(self._connection, "POST", "/reports", body)
        response = self._connection.getresponse()
        response.read()
        return response.status

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def thinned(points: list[Point]) -> list[Point]:
    """Every second point, and always the newest."""
    return points[::-2][::-1]


def sender_from_environment() -> Sender | None:
    """None outside of Schedulearn."""
    service, spool = service_from_environment(), os.environ.get("SCHEDULEARN_SPOOL")
    return Sender(service, Spool(Path(spool)) if spool else None) if service else None
