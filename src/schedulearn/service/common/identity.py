"""The accounts that each user's jobs run as, and what separates them: decided where jobs run, kept in the store."""

import os
import pwd
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from schedulearn.core.domain.errors import InvalidSpec, SchedulearnError
from schedulearn.store import Store, UserRow

FIRST, LAST = 70_000, 99_999  # the usual range
ROOT = 0  # as the uid of a user: an administrator wants it so
FIRST_PERSON = 1000  # below it systems keep their own accounts
LARGEST = 2**32 - 2
_NOBODY = frozenset({65534, 65535})  # what systems give to files and programs that are nobody's
_NOWHERE = 65534  # for a user whose uid would be beyond the range: such a one is not added
_SETTING = "identities"

Ids = tuple[int, int]  # uid, gid


@dataclass(frozen=True, slots=True)
class Identities:
    """What the scheduler's process decided when it started; kept in the store, as the API may be another process."""

    first: int = FIRST  # of the uids that users are given out of
    last: int = LAST
    root: bool = False  # whether that process is root, and can run jobs as other users
    root_jobs: bool = False  # whether jobs run as root nevertheless
    processes: bool = True  # whether jobs run as plain processes on its machine
    name: str = ""  # of that process's user

    @classmethod
    def here(cls, uids: tuple[int, int], root_jobs: bool, processes: bool) -> "Identities":
        """Those that this process can give."""
        return cls(*uids, os.geteuid() == ROOT, root_jobs, processes, _name_of(os.geteuid()))

    @classmethod
    def told(cls, store: Store) -> "Identities":
        """Those of the scheduler that runs, or ran last, on this store."""
        known: dict[str, Any] = store.setting(_SETTING, {})
        return cls(**{name: known[name] for name in cls.__slots__ if name in known})

    def tell(self, store: Store) -> None:
        store.set_setting(_SETTING, asdict(self))

    # --- the account of a job

    def in_container(self, user: UserRow) -> Ids:
        """Never root, whatever the user may be outside of it."""
        return _explicit(user) or self._own(user)

    def as_process(self, user: UserRow) -> Ids | None:
        """None: as the service itself."""
        if user.uid == ROOT or (user.uid is None and (self.root_jobs or not self.root)):
            return None
        return _explicit(user) or self._own(user)

    def runs_as(self, user: UserRow) -> str:
        """The same for a person."""
        if not self.processes:
            return f"uid {self.in_container(user)[0]}"
        ids = self.as_process(user)
        if ids is None and not self.root:
            return f"the service's user, {self.name}"
        return "root" if ids is None else f"uid {ids[0]}"

    @property
    def own_users(self) -> str:
        """The uids that processes have; "" where they run as the service itself."""
        return f"{self.first}-{self.last}" if self.root and not self.root_jobs else ""

    def _own(self, user: UserRow) -> Ids:
        uid = self.first + user.id
        return (uid, uid) if uid <= self.last else (_NOWHERE, _NOWHERE)

    # --- what may be asked for

    def check(self, uid: int | None, gid: int | None) -> None:
        """InvalidSpec if a user cannot be given these."""
        if uid == ROOT and gid is not None:
            raise InvalidSpec("gid", "root jobs have root's group", "no gid for a user with root")
        if uid is None and gid is not None:
            raise InvalidSpec("gid", "it goes with a uid", "a uid and a gid, or neither")
        for field, number in (("uid", uid), ("gid", gid)):
            if number is None or (field == "uid" and number == ROOT):
                continue
            if number < FIRST_PERSON or number > LARGEST or number in _NOBODY or self.first <= number <= self.last:
                allowed = f"{FIRST_PERSON} or more, of a person; {self.first}-{self.last} are the service's to give out"
                raise InvalidSpec(field, f"jobs cannot run as {number}", allowed)

    def check_room(self, next_id: int) -> None:
        """InvalidSpec if there is no uid for one more user."""
        if self.first + next_id > self.last:
            raise InvalidSpec("name", f"all uids of {self.first}-{self.last} are given out", "start with more --uids")
        if self.root and (taken := _known(self.first + next_id)):
            raise InvalidSpec("name", f"its uid would be that of {taken} on this machine", "start with other --uids")

    def check_all(self, users: Iterable[UserRow]) -> None:
        """SchedulearnError if two could run as one user, or one as another account. For the start of a scheduler."""
        for user in users:
            uid = self.first + user.id
            if user.uid is not None and self.first <= user.uid <= self.last:
                raise SchedulearnError(
                    f"--uids {self.first}-{self.last}: {user.name} has uid {user.uid}, which is in it"
                )
            if uid > self.last:
                raise SchedulearnError(
                    f"--uids {self.first}-{self.last}: too few for user {user.name} (number {user.id})"
                )
            if self.root and not self.root_jobs and user.uid is None and (taken := _known(uid)):
                raise SchedulearnError(f"--uids {self.first}-{self.last}: {uid} is {taken} on this machine")

    # --- in words

    def warnings(self, users: Iterable[UserRow]) -> list[str]:
        """What an administrator must know when the service starts."""
        if not self.processes:
            return []
        if not self.root:
            return [one_domain(self.name)]
        if self.root_jobs:
            return ["Jobs run as root (--root-jobs): whoever may submit one has all rights on this machine."]
        rooted = [user.name for user in users if user.uid == ROOT]
        return [f"Jobs of {', '.join(rooted)} run as root, with all rights on this machine."] if rooted else []

    def notes(self, user: UserRow, others: int) -> list[str]:
        """What an administrator must know when a user is added or changed."""
        if not self.processes:
            return []
        if not self.root and self.as_process(user) is None:
            return [one_domain(self.name)] if others else []
        if self.root and self.as_process(user) is None:
            return [f"Jobs of {user.name} run as root, with all rights on this machine."]
        return []


def one_domain(name: str) -> str:
    return (
        f"The service does not run as root, so the jobs of all its users run as one, {name}: each can read, change and"
        " stop what the others have."
    )


def _explicit(user: UserRow) -> Ids | None:
    """The account of the machine that an administrator chose."""
    if user.uid is None or user.uid == ROOT:
        return None
    return user.uid, _main_group(user.uid) if user.gid is None else user.gid


def _main_group(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _known(uid: int) -> str:
    """The name of the account with this uid on this machine; there should be none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _name_of(uid: int) -> str:
    return _known(uid) or str(uid)
