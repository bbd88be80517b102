"""Callers: bearer tokens, and what each kind of caller may do."""

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from schedulearn.core.domain.errors import NotAllowed, SchedulearnError
from schedulearn.core.domain.ids import AttemptId
from schedulearn.store import Store, TokenRow

ADMIN, USER, JOB = "admin", "user", "job"
CACHE_SECONDS = 2.0  # a token revoked by another process is refused after this at the latest
CACHE_SIZE = 10_000
UNUSED_FOR = 30 * 86400.0  # seconds without use after which a log-in ends
_RENEW_EVERY = 3600.0  # seconds: however often a log-in is used, this is how often that is written down


class NotAuthenticated(SchedulearnError):
    """No token, or one that is not known."""


class NoToken(NotAuthenticated):
    """No token was shown."""


class NotYours(NotAllowed):
    """It belongs to another user."""

    def __init__(self, what: str, owner: str) -> None:
        self.owner = owner
        super().__init__(f"{what} belongs to {owner}: only {owner} or an administrator may do this")


@dataclass(frozen=True, slots=True)
class Caller:
    """A user or a job with a valid token. A job's own (`attempt` is set) is good for its reports and groups alone."""

    name: str
    role: str
    max_priority: int = 100  # the highest priority that the caller may give
    attempt: AttemptId | None = None
    id: int = 0  # the user's: a name may be given to another user; 0: none, as of a job

    @property
    def is_admin(self) -> bool:
        return self.role == ADMIN

    def owns(self, owner: int | None) -> bool:
        """Whether the caller may change what belongs to the user with this id."""
        return self.is_admin or (self.role == USER and self.id == owner)

    def must_be_person(self) -> None:
        if self.role == JOB:
            raise NotAllowed("the token of a job is good only for the reports and the groups of its own attempt")

    def must_be_admin(self) -> None:
        self.must_be_person()
        if not self.is_admin:
            raise NotAllowed("only an administrator may do this")

    def acts_for(self, user: str | None, what: str) -> str:
        """The user whose things these are: the caller, unless another one is named, which administrators may."""
        self.must_be_person()
        name = self.name if user is None else user
        if name != self.name and not self.is_admin:
            raise NotAllowed(f"only an administrator may {what}")
        return name

    def must_own(self, owner: int | None, user: str, what: str) -> None:
        """`user` is the owner's name, for the message."""
        self.must_be_person()
        if not self.owns(owner):
            raise NotYours(what, user)


def new_token() -> str:
    """A fresh secret. It is shown once; only its hash is kept."""
    return "sl_" + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Authenticator:
    """Finds the caller of a token, with a small cache: most requests come in bursts from the same caller.

    The tokens of jobs are looked up each time: they end with their attempt, which no one here is told of.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.time, now: Callable[[], float] = time.monotonic
    ) -> None:
        """By the `clock` tokens end; by `now` what was looked up is looked up again."""
        self._store, self._clock, self._now = store, clock, now
        self._cache: dict[str, tuple[float, Caller]] = {}  # hash -> (good until, caller)
        self._changes = 0  # what was looked up before one of them is not remembered after it

    def cached(self, token: str) -> Caller | None:
        """The caller if it was looked up just now. Never touches the store, so it is safe in the event loop."""
        found = self._cache.get(hash_token(token))
        return found[1] if found and found[0] > self._now() else None

    def authenticate(self, token: str) -> Caller:
        """The caller of this token; NotAuthenticated if there is none."""
        if caller := self.cached(token):
            return caller
        digest, changes = hash_token(token), self._changes
        caller = self._look_up(digest)
        if len(self._cache) >= CACHE_SIZE:
            self._cache.clear()
        if caller.attempt is None:
            self._cache[digest] = (self._now() + CACHE_SECONDS, caller)
        if changes != self._changes:  # after it was put there, so that no change can come in between
            self._cache.pop(digest, None)
        return caller

    def forget(self) -> None:
        """Look all callers up again: a token or a user has changed."""
        self._changes += 1
        self._cache.clear()

    def _look_up(self, digest: str) -> Caller:
        token = self._store.token_by_hash(digest)
        if token and token.attempt:
            # A job goes on reporting when its user has been removed.
            return Caller(token.user, JOB, attempt=token.attempt)
        user = self._store.user(token.user) if token and self._lasts(token) else None
        if user is None:
            raise NotAuthenticated("a valid token is needed")
        priority = 100 if user.max_priority is None else user.max_priority
        return Caller(user.name, user.role, priority, id=user.id)

    def _lasts(self, token: TokenRow) -> bool:
        """Whether it has not ended. One that ends does so some time after it was used last: that is now."""
        now = self._clock()
        if token.has_ended(now):
            return False
        if token.expires_at is not None and token.expires_at < now + UNUSED_FOR - _RENEW_EVERY:
            self._store.renew_token(token.id, now + UNUSED_FOR)
        return True
