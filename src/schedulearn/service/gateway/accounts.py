"""Users and their tokens, as the API offers them."""

import time
from collections.abc import Callable
from typing import Unpack

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound
from schedulearn.service.common.auth import ADMIN, Authenticator, Caller, hash_token, new_token
from schedulearn.service.common.identity import ROOT, Identities
from schedulearn.store import Store, TokenRow, UserChanges, UserRole, UserRow
from schedulearn.wire import types


class Accounts:
    def __init__(
        self, store: Store, auth: Authenticator, clock: Callable[[], float] = time.time, most_tokens: int = 0
    ) -> None:
        """`most_tokens` of one user; 0: any number."""
        self._store, self._auth, self._clock, self._most_tokens = store, auth, clock, most_tokens

    def whoami(self, caller: Caller) -> UserRow:
        return self.find(caller.name)

    def users(self, caller: Caller) -> list[UserRow]:
        caller.must_be_admin()
        return self._store.users()

    def add_user(
        self,
        caller: Caller,
        name: str,
        role: UserRole,
        uid: int | None,
        gid: int | None,
        max_priority: int | None,
        *,
        root: bool = False,
    ) -> UserRow:
        """`root`: the user's jobs run as root where they are plain processes of this machine."""
        caller.must_be_admin()
        uid = _with_root(uid, root)
        identities = Identities.told(self._store)
        identities.check(uid, gid)
        identities.check_room(self._store.last_user_id() + 1)
        return self._store.add_user(name, role, uid, gid, max_priority)

    def runs_as(self, user: UserRow) -> str:
        """The account that jobs of this user run as, in words."""
        return Identities.told(self._store).runs_as(user)

    def notes(self, user: UserRow) -> list[str]:
        """What an administrator should know of this user's jobs."""
        return Identities.told(self._store).notes(user, len(self._store.users()) - 1)

    def update_user(
        self, caller: Caller, name: str, root: bool | None = None, **changes: Unpack[UserChanges]
    ) -> UserRow:
        """`root`: as for `add_user`; None: as it is."""
        caller.must_be_admin()
        user = self.find(name)
        if root:
            changes["uid"] = _with_root(changes.get("uid"), root)
            changes.setdefault("gid", None)
        elif root is False and user.uid == ROOT:
            changes.setdefault("uid", None)
        if "uid" in changes and changes["uid"] is None:
            changes.setdefault("gid", None)
        Identities.told(self._store).check(changes.get("uid", user.uid), changes.get("gid", user.gid))
        if changes.get("role", ADMIN) != ADMIN:
            self._keep_an_admin(user)
        changed = self._store.update_user(name, **changes)
        self._auth.forget()
        return changed

    def remove_user(self, caller: Caller, name: str) -> None:
        """The user and all their tokens. Their finished jobs stay."""
        caller.must_be_admin()
        self._keep_an_admin(self.find(name))
        self._store.remove_user(name, idle=True)
        self._auth.forget()

    def tokens(self, caller: Caller) -> list[TokenRow]:
        """The caller's own; an administrator sees those of all users. Those that have ended are not shown."""
        caller.must_be_person()
        found = self._store.tokens(None if caller.is_admin else caller.name)
        return [token for token in found if not token.has_ended(self._clock())]

    def add_token(self, caller: Caller, user: str | None, label: str) -> types.NewToken:
        return self.make_token(caller.acts_for(user, "make a token for another user"), label)

    def make_token(self, owner: str, label: str, lasts: float | None = None) -> types.NewToken:
        """`lasts` is how many seconds it is good for; None: until it is revoked."""
        self.find(owner)
        token, now = new_token(), self._clock()
        until = None if lasts is None else now + lasts
        serial = self._store.add_token(owner, label, hash_token(token), now, expires_at=until, most=self._most_tokens)
        return types.NewToken(id=serial, token=token, user=owner, label=label)

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
        # Another user's token is as good as none: its id tells nothing.
        if serial not in {token.id for token in self.tokens(caller)}:
            raise NotFound(f"you have no token {serial}")
        self._store.revoke_token(serial)
        self._auth.forget()

    def find(self, name: str) -> UserRow:
        user = self._store.user(name)
        if user is None:
            raise NotFound(f"there is no user {name!r}")
        return user

    def is_there(self, name: str, id: int) -> bool:
        """Whether the one of that name is still the same."""
        user = self._store.user(name)
        return user is not None and user.id == id

    def _keep_an_admin(self, user: UserRow) -> None:
        if user.role == ADMIN and sum(1 for other in self._store.users() if other.role == ADMIN) == 1:
            raise Conflict(f"{user.name} is the only administrator")


def _with_root(uid: int | None, root: bool) -> int | None:
    if root and uid is not None:
        raise InvalidSpec("root", "the user has a uid, too", "root or a uid, not both")
    return ROOT if root else uid
