"""Tells users that their jobs are over. Beside the scheduler: it reads the history, and nothing waits for it.

Notices are made of the history and kept, both in one transaction, and are sent afterwards: after a crash each is sent
that may not have been. So a notice arrives at least once, or it is written down why it did not.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.notice import Address, parse_address
from schedulearn.core.domain.ports import Clock
from schedulearn.core.domain.states import JobState
from schedulearn.service.common.repeating import Repeating, log_fault
from schedulearn.service.notify import content
from schedulearn.service.notify.content import Undelivered
from schedulearn.store import JobRow, NewNotice, Notice, Store

_LOG = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between two looks
_AT_ONCE = 4  # notices on their way at the same time; of each user one
_MOST_USERS = 1000  # that are looked at in one round
_LAST_WORDS = 2.0  # seconds that those on their way get when the service stops
# Seconds until the next try: 8 tries within about 17 hours.
DELAYS = (5.0, 30.0, 120.0, 600.0, 3600.0, 3 * 3600.0, 12 * 3600.0)
Send = Callable[[Notice], None]


class Notifier(Repeating):
    def __init__(self, store: Store, clock: Clock, send: Send, delays: Sequence[float] = DELAYS) -> None:
        """`send` tries once, and raises Undelivered."""
        super().__init__("notify", _EVERY, "notices could not be looked after; it is tried again")
        self._store, self._clock, self._send, self._delays = store, clock, send, delays
        self._looked = 0  # the last event that was looked at
        self._busy: set[str] = set()  # users with a notice on its way
        self._served: dict[str, int] = {}  # user -> number of the round in which one of theirs was sent last
        self._round = 0
        self._changed = threading.Condition()
        store.follow_ends()

    def close(self) -> None:
        """What is on its way gets a moment; what is not sent by then is sent, perhaps again, by the next service."""
        super().close()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, _LAST_WORDS)

    def look(self) -> None:
        self.follow()
        self.deliver()

    # --- from the history to notices

    def follow(self) -> None:
        """Make notices of what has ended since."""
        ends, looked = self._store.new_ends(self._looked)
        if ends:
            new = [notice for _, event in ends for notice in self._notices(event)]
            dropped = self._store.add_notices(new, self._clock.now(), looked)
            if dropped:
                _LOG.warning("%d notices were dropped: their users have too many that wait", dropped)
        self._looked = looked

    def _notices(self, event: HistoryEvent) -> Iterable[NewNotice]:
        row = self._store.job(event.job) if event.job is not None else None
        if row is None or event.state is None or _own_doing(event, row):
            return []  # its user has deleted it, and knows
        user = self._store.user(row.job.user)
        if user and user.id != row.owner:
            return []  # the name is another user's now
        targets = self._targets(row, event.state)
        if not targets:
            return []
        said = content.of_end(row, event, str(self._store.setting("url", "")))
        return [NewNotice(row.job.user, target, said) for target in targets]

    def _targets(self, row: JobRow, state: JobState) -> list[str]:
        wanted = [*row.job.spec.notify, *self._store.subscription(row.job.user).addresses]
        addresses = [address for text in wanted if (address := _parsed(text))]
        return list(dict.fromkeys(address.target for address in addresses if address.wants(state)))

    # --- from notices to users

    def deliver(self) -> None:
        """Send those that are due, as many at once as may be. Returns at once.

        By turns: a few users with slow receivers and many notices take no more than their part.
        """
        with self._changed:
            busy = set(self._busy)
        self._round += 1
        due = self._store.due_notices(self._clock.now(), _MOST_USERS, busy)
        due.sort(key=lambda notice: self._served.get(notice.user, 0))
        for notice in due[: _AT_ONCE - len(busy)]:
            with self._changed:
                self._busy.add(notice.user)
            self._served[notice.user] = self._round
            threading.Thread(target=self._try, args=(notice,), name="notice", daemon=True).start()

    def idle(self) -> bool:
        """Whether nothing is on its way."""
        with self._changed:
            return not self._busy

    def _try(self, notice: Notice) -> None:
        try:
            self._try_once(notice)
        except Exception:
            if not self._stop.is_set():  # else the store is closed: the next service goes on
                log_fault(_LOG, "what became of notice %d could not be kept", notice.serial)
        finally:
            with self._changed:
                self._busy.discard(notice.user)
                self._changed.notify_all()

    def _try_once(self, notice: Notice) -> None:
        try:
            self._send(notice)
        except Undelivered as error:
            self._put_off(notice, error)
        except Exception as error:
            if self._stop.is_set():
                raise
            # A fault of ours: it must not be tried every second for ever, before all others of this user.
            log_fault(_LOG, "notice %d could not be sent", notice.serial)
            self._put_off(notice, Undelivered(f"an error in the service: {type(error).__name__}"))
        else:
            self._store.notice_tried(notice.serial, "sent", self._clock.now(), "")

    def _put_off(self, notice: Notice, error: Undelivered) -> None:
        now = self._clock.now()
        if error.final or notice.tries >= len(self._delays):
            _LOG.warning("a notice of %s is given up: %s", notice.user, error)
            self._store.notice_tried(notice.serial, "given up", now, str(error))
        else:
            self._store.notice_tried(notice.serial, "waiting", now + self._delays[notice.tries], str(error))


def _own_doing(event: HistoryEvent, row: JobRow) -> bool:
    """A user that has cancelled their own job need not be told."""
    return event.state is JobState.CANCELLED and event.cause == f"cancelled by {row.job.user}"


def _parsed(text: str) -> Address | None:
    try:
        return parse_address(text)
    except InvalidSpec:
        return None  # of a job that was submitted before addresses were checked
