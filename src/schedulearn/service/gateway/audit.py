"""The audit log: what administrators read of it, and refusals, of which a flood must not fill the disk."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from schedulearn.core.domain.errors import StoreError
from schedulearn.service.common.auth import Caller
from schedulearn.service.common.repeating import log_fault
from schedulearn.store import Actor, AuditEntry, AuditFilter, Store

_LOG = logging.getLogger(__name__)
_WINDOW = 3600.0  # seconds
_MOST = 500  # refusals that are written down in one window
_MOST_EACH = 50  # of one caller at one address
_MOST_SOURCES = 1000  # callers and addresses that are told apart
_LONGEST = 300  # characters of a reason


class Refusal(NamedTuple):
    """Something that a caller tried, and was not allowed."""

    action: str
    object: str
    owner: str
    why: str


@dataclass(slots=True)
class _Tally:
    """What one caller at one address was refused in the present window."""

    actor: Actor
    seen: set[tuple[str, str]] = field(default_factory=set)
    left_out: int = 0


class AuditLog:
    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._began = 0.0
        self._written = 0
        self._tallies: dict[tuple[str, str], _Tally] = {}

    def entries(self, caller: Caller, wanted: AuditFilter, limit: int) -> list[AuditEntry]:
        """The newest first; for administrators."""
        caller.must_be_admin()
        return self._store.audit(wanted, limit)

    def let_in(self, user: str) -> None:
        """A code was given out with which this user logs in."""
        self._store.note_act("login.issue", f"user {user}", user)

    def logged_in(self, actor: Actor, user: str) -> None:
        """A code was used."""
        known = self._store.user(user)
        user_now = replace(actor, name=user, id=known.id if known else None)
        self._store.add_audit(user_now, "login.redeem", f"user {user}", user)

    def refused(self, actor: Actor, refusal: Refusal) -> None:
        """Write it down: each thing once in a while, and of very many only how many there were."""
        try:
            over, new = self._admit(actor, refusal)
            for tally in over:
                self._sum_up(tally)
            if new:
                why = f"refused: {refusal.why}"[:_LONGEST]
                self._store.add_audit(actor, refusal.action, refusal.object, refusal.owner, why)
        except StoreError:
            log_fault(_LOG, "a refusal could not be written down")  # it stays one all the same

    def _admit(self, actor: Actor, refusal: Refusal) -> tuple[list[_Tally], bool]:
        """Those of the window before of which some were left out, and whether this one is written down."""
        with self._lock:
            over = self._turn(actor.at)
            source = (actor.name, actor.origin)
            if source not in self._tallies and len(self._tallies) >= _MOST_SOURCES:
                source, actor = ("", ""), replace(actor, name="", id=None, origin="")
            tally = self._tallies.setdefault(source, _Tally(actor))
            what = (refusal.action, refusal.object)
            new = what not in tally.seen and len(tally.seen) < _MOST_EACH and self._written < _MOST
            if new:
                tally.seen.add(what)
                self._written += 1
            else:
                tally.left_out += 1
        return over, new

    def _turn(self, now: float) -> list[_Tally]:
        """Begin a new window if it is time. With the lock held."""
        if 0 <= now - self._began < _WINDOW:
            return []
        over = [tally for tally in self._tallies.values() if tally.left_out]
        self._began, self._written, self._tallies = now, 0, {}
        return over[:_MOST]

    def _sum_up(self, tally: _Tally) -> None:
        actor = replace(tally.actor, at=self._clock())
        why = f"refused: {tally.left_out:,} more, which are not listed one by one"
        self._store.add_audit(actor, "refused", "", "", why, times=tally.left_out)
