"""One thread for each container that runs: copies its output, and takes note when it has ended."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.common.base import Unreachable
from schedulearn.executors.docker.calls import NotThere, WrongState
from schedulearn.executors.docker.containers import Containers, State
from schedulearn.executors.docker.frames import Frames
from schedulearn.executors.docker.output import Output, OutputClosed, moment_of

log = logging.getLogger(__name__)
_AGAIN = 0.5  # seconds until an engine that does not answer is asked again
_PACE = 0.1  # seconds between two looks at output that grows
_FEW, _MANY = 64, 100_000  # pieces of output asked for at once
_AFTER_A_FAULT = 5.0


class Follower:
    """Calls `on_end` once, from its thread, with the container as it ended, or None if it is gone."""

    def __init__(
        self,
        worker: WorkerId,
        containers: Containers,
        open_output: Callable[[], Output],
        on_end: Callable[[WorkerId, State | None], None],
    ) -> None:
        self._worker, self._containers, self._on_end = worker, containers, on_end
        self._open_output = open_output
        self._output: Output | None = None  # kept open: what was copied in this life is found again at once
        self._closed = threading.Event()
        self._opening = threading.Lock()  # no output is opened once it is closed
        self._stream: Frames | None = None
        self._usual = _FEW  # pieces of output that are asked for next
        self.silent = False  # whether the engine stopped answering while the container ran
        self._thread = threading.Thread(target=self._run, name=f"follow-{worker}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop following. Returns at once; nothing is written any more, so that another may go on."""
        with self._opening:
            self._closed.set()
            if self._output:
                self._output.close()
        self.look_again()

    def look_again(self) -> None:
        """The stream may have broken without a word: open a new one."""
        stream = self._stream
        if stream is not None:
            stream.end()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def wait(self, seconds: float) -> None:
        self._closed.wait(seconds)

    def _run(self) -> None:
        try:
            ended, state = self._until_the_end()
        finally:
            if self._output:
                self._output.close()
        if ended:
            self._on_end(self._worker, state)

    def _until_the_end(self) -> tuple[bool, State | None]:
        while not self.closed:
            try:
                ended, state = self._follow()
            except OutputClosed:
                break
            except Unreachable:
                self.silent = True
                self.wait(_AGAIN)
            except Exception as error:  # a full disk, or an engine that fails: it may pass
                log.warning("the output of worker %s cannot be read now: %s", self._worker, error)
                self.wait(_AFTER_A_FAULT)
            else:
                if ended:
                    return True, state
        return False, None

    def _follow(self) -> tuple[bool, State | None]:
        """Copy what there is, then wait for more, or for the end."""
        state = self._containers.find(self._containers.name(self._worker))
        if state is None:
            return True, None
        output = self._opened()
        told = False
        with suppress(NotThere, WrongState):  # the second: it is just being removed
            while not self.closed:
                new = self._copy_all(state, output)
                if told and not new:  # the stream spoke of something that is not there: look at the container again
                    break
                told = state.alive and self._more(state.id, output)
                if not told:
                    break
        if state.alive:
            self.wait(_PACE)  # most likely it has just ended; if the stream broke, it must not spin
        return not state.alive, state

    def _opened(self) -> Output:
        with self._opening:
            if self.closed:
                raise OutputClosed
            if not self._output:
                self._output = self._open_output()
            return self._output

    def _copy_all(self, state: State, output: Output) -> bool:
        """Until there is nothing new; whether there was something."""
        new = False
        while self._copy(state.id, output) and not self.closed:
            new = True
            self.wait(_PACE if state.alive else 0)
        return new

    def _copy(self, container: str, output: Output) -> int:
        """The number of new pieces. Reads only the last ones, as few as will do."""
        last: int | None = self._usual if output.latest else None
        while True:
            frames = self._containers.calls.stream(self._containers.output(container, last))
            found = output.copy(frames, whole=last is None)
            if found is not None:
                self._usual = 2 * found + _FEW
                return found
            last = last * 8 if last and last < _MANY else None

    def _more(self, container: str, output: Output) -> bool:
        """Wait until there is new output; False: the stream has ended, with its container or alone.

        What it brings is only a sign. An engine that rotates its files while it is followed may leave out a whole
        one (https://github.com/moby/moby/issues/37646), so the output itself is read in another way.
        """
        self._stream = self._containers.output(container, 1, follow=True)
        try:
            if not self.closed:
                frames = self._containers.calls.stream(self._stream)
                return any(moment_of(frame) != output.latest for frame in frames)
            return False
        finally:
            self._stream.close()
            self._stream = None
