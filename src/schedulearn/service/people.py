"""Users and their tokens, as the API offers them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

from schedulearn.domain.errors import Conflict, NotAllowed, NotFound
from schedulearn.domain.states import FINISHED, JobState
from schedulearn.service.auth import ADMIN, Authenticator, Caller, hash_token, new_token
from schedulearn.store import Store, TokenRow, UserChanges, UserRole, UserRow

_UNFINISHED = [state for state in JobState if state not in FINISHED]


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token at its making: the only time that it is shown."""

    id: int
    token: str
    user: str
    label: str


class People:
    def __init__(self, store: Store, auth: Authenticator, clock: Callable[[], float] = time.time) -> None:
        self._store, self._auth, self._clock = store, auth, clock

    def whoami(self, caller: Caller) -> UserRow:
        return self.find(caller.name)

    def users(self, caller: Caller) -> list[UserRow]:
        caller.must_be_admin()
        return self._store.users()

    def add_user(
        self, caller: Caller, name: str, role: UserRole, uid: int | None, gid: int | None, max_priority: int | None
    ) -> UserRow:
        caller.must_be_admin()
        return self._store.add_user(name, role, uid, gid, max_priority)

    def update_user(self, caller: Caller, name: str, **changes: Unpack[UserChanges]) -> UserRow:
        caller.must_be_admin()
        user = self.find(name)
        if changes.get("role", ADMIN) != ADMIN:
            self._keep_an_admin(user)
        changed = self._store.update_user(name, **changes)
        self._auth.forget()
        return changed

    def remove_user(self, caller: Caller, name: str) -> None:
        """The user and all their tokens. Their finished jobs stay."""
        caller.must_be_admin()
        self._keep_an_admin(self.find(name))
        _, unfinished = self._store.list_jobs(states=_UNFINISHED, user=name, limit=1)
        if unfinished:
            raise Conflict(f"{name} has unfinished jobs ({unfinished}): cancel them first")
        self._store.remove_user(name)
        self._auth.forget()

    def tokens(self, caller: Caller) -> list[TokenRow]:
        """The caller's own; an administrator sees everybody's. Those that have ended are not shown."""
        caller.must_be_person()
        found = self._store.tokens(None if caller.is_admin else caller.name)
        return [token for token in found if not token.has_ended(self._clock())]

    def add_token(self, caller: Caller, user: str | None, label: str) -> NewToken:
        owner = caller.name if user is None else user
        if owner != caller.name and not caller.is_admin:
            raise NotAllowed("only an administrator may make a token for somebody else")
        return self.make_token(owner, label)

    def make_token(self, owner: str, label: str, lasts: float | None = None) -> NewToken:
        """`lasts` is how many seconds it is good for; None: until somebody revokes it."""
        self.find(owner)
        token, now = new_token(), self._clock()
        until = None if lasts is None else now + lasts
        serial = self._store.add_token(owner, label, hash_token(token), now, expires_at=until)
        return NewToken(serial, token, owner, label)

    def drop_oldest(self, owner: str, label: str, keep: int) -> None:
        """Of the tokens with this label, keep the newest; of those that have ended none."""
        self._store.drop_ended_tokens(self._clock())
        made = sorted(token.id for token in self._store.tokens(owner) if token.label == label)
        for serial in made[: max(0, len(made) - keep)]:
            self._store.revoke_token(serial)
        self._auth.forget()

    def an_admin(self) -> str:
        """The name of an administrator: there always is one."""
        return next(user.name for user in self._store.users() if user.role == ADMIN)

    def revoke_token(self, caller: Caller, serial: int) -> None:
        # Somebody else's token is as good as none: its id tells nothing.
        if serial not in {token.id for token in self.tokens(caller)}:
            raise NotFound(f"you have no token {serial}")
        self._store.revoke_token(serial)
        self._auth.forget()

    def find(self, name: str) -> UserRow:
        user = self._store.user(name)
        if user is None:
            raise NotFound(f"there is no user {name!r}")
        return user

    def _keep_an_admin(self, user: UserRow) -> None:
        if user.role == ADMIN and sum(1 for other in self._store.users() if other.role == ADMIN) == 1:
            raise Conflict(f"{user.name} is the only administrator")
