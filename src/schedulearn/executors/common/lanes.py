"""Work in the background: in order for one key, side by side for different ones."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

log = logging.getLogger(__name__)
Task = Callable[[], None]


class Lanes:
    def __init__(self, threads: int, aside: int = 0) -> None:
        """So many tasks at a time, and up to `aside` more that only wait."""
        self._pool = ThreadPoolExecutor(threads + aside, thread_name_prefix="process-executor")
        self._places = threading.Semaphore(threads)
        self._lanes: dict[Hashable, deque[Task]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, key: Hashable, task: Task) -> None:
        """Run it after everything submitted before with this key. After `close` nothing runs any more."""
        with self._lock:
            if self._closed:
                return
            lane = self._lanes.setdefault(key, deque())
            lane.append(task)
            if len(lane) == 1:
                self._pool.submit(self._work_off, key, lane)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """For a task that has to wait for long: others have its place meanwhile."""
        self._places.release()
        try:
            yield
        finally:
            self._places.acquire()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _work_off(self, key: Hashable, lane: deque[Task]) -> None:
        while True:
            try:
                with self._places:
                    lane[0]()
            except Exception:
                log.exception("a task of %s failed", key)
            with self._lock:
                lane.popleft()
                if self._closed or not lane:
                    del self._lanes[key]
                    return
