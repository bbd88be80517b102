"""Work in the background: in order for one key, side by side for different ones."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

log = logging.getLogger(__name__)
Task = Callable[[], None]
AGAIN_AFTER = (0.1, 0.5, 2.0, 5.0)  # seconds before each new try of a task that failed: a shortage may pass


class Lanes:
    def __init__(self, threads: int, aside: int = 0) -> None:
        """So many tasks at a time, and up to `aside` more that only wait."""
        self._pool = ThreadPoolExecutor(threads + aside, thread_name_prefix="process-executor")
        self._places = threading.Semaphore(threads)
        self._lanes: dict[Hashable, deque[Task]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._pool.submit(int).result()  # one thread there is, also when the machine has no room for more

    def submit(self, key: Hashable, task: Task) -> None:
        """Run it after everything submitted before with this key. After `close` nothing runs any more.

        A task that fails is tried again a few times, so it must be one that can be done twice.
        """
        with self._lock:
            if self._closed.is_set():
                return
            lane = self._lanes.setdefault(key, deque())
            lane.append(task)
            if len(lane) == 1:
                with suppress(RuntimeError):  # no new thread can be started: one of the others gets to it
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
            self._closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _work_off(self, key: Hashable, lane: deque[Task]) -> None:
        while True:
            self._carry_out(key, lane[0])
            with self._lock:
                lane.popleft()
                if self._closed.is_set() or not lane:
                    del self._lanes[key]
                    return

    def _carry_out(self, key: Hashable, task: Task) -> None:
        for pause in (*AGAIN_AFTER, None):
            try:
                with self._places:
                    task()
            except Exception:
                if pause is None:  # the service asks again from time to time
                    log.exception("a task of %s failed %d times, and is given up", key, len(AGAIN_AFTER) + 1)
                    return
                log.warning("a task of %s failed; it is tried again in %g s", key, pause, exc_info=True)
                if self._closed.wait(pause):
                    return
            else:
                return
