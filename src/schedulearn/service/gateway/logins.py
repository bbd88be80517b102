"""One-time codes: the first to show one gets a token of its user. They are how users log in to the page."""

import secrets
import threading
from collections.abc import Callable

from schedulearn.service.common.auth import UNUSED_FOR, Caller, NotAuthenticated, hash_token
from schedulearn.service.gateway.accounts import Accounts
from schedulearn.wire import types
from schedulearn.wire.words import iso

GOOD_FOR = 12 * 3600.0  # seconds
LABEL = "page"  # of the tokens that come of them
_MOST_CODES = 20  # of one user: the oldest ends when there is one more
_MOST_TOKENS = 20  # of one user: one more log-in ends the oldest


class Logins:
    """Codes are kept in memory, as hashes: they end with the process."""

    def __init__(self, accounts: Accounts, clock: Callable[[], float]) -> None:
        self._accounts, self._clock = accounts, clock
        self._codes: dict[str, tuple[str, int, float]] = {}  # hash -> user, id of the user, good until
        self._lock = threading.Lock()

    def issue(self, caller: Caller, user: str | None = None) -> types.Login:
        """A code for the caller; an administrator may have one for another user."""
        return self.issue_for(caller.acts_for(user or None, "let another user log in"))

    def issue_for(self, user: str) -> types.Login:
        code, until = secrets.token_urlsafe(24), self._clock() + GOOD_FOR
        known = self._accounts.find(user)
        with self._lock:
            theirs = [digest for digest, (owner, *_) in self._codes.items() if owner == user]
            if len(theirs) >= _MOST_CODES:
                del self._codes[theirs[0]]  # in the order of their making
            self._codes[hash_token(code)] = user, known.id, until
        return types.Login(code=code, user=user, expires_at=iso(until))

    def redeem(self, code: str) -> types.NewToken:
        """A new token for a code, once; it ends when it is not used for long.

        NotAuthenticated if the code is not, or no longer, good.
        """
        with self._lock:
            user, id, until = self._codes.pop(hash_token(code), ("", 0, 0.0))
        # A name may have been given to another user since.
        if until <= self._clock() or not self._accounts.is_there(user, id):
            raise NotAuthenticated("this code was used before, is too old, or never was: ask for a new one")
        self._accounts.drop_oldest(user, LABEL, _MOST_TOKENS - 1)
        return self._accounts.make_token(user, LABEL, UNUSED_FOR)
