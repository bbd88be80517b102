"""Which addresses a user may name, and where users want notices sent."""

from collections.abc import Callable, Iterable, Sequence

from schedulearn.core.domain.errors import InvalidSpec, NotFound
from schedulearn.core.domain.notice import PUBLIC, Address, Cover, cover, parse_address
from schedulearn.service.common.auth import Caller
from schedulearn.service.notify import content, webhook
from schedulearn.store import NewNotice, Notice, Store
from schedulearn.wire import types
from schedulearn.wire.words import iso

RULES, MAIL = "allow_notify", "mail_command_set"  # settings: what the scheduler's process was started with
MOST = 20  # addresses of one user
_SHOWN = 20  # notices


class Subscriptions:
    """What the API offers."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock

    def check(self, caller: Caller, wanted: Sequence[str], field: str = "notify") -> None:
        """InvalidSpec if the caller may not have one of these told; `field` is where they were named."""
        if not wanted:
            return
        rules, given = self._rules(), self._store.subscription(caller.name).given
        for text in wanted:
            address = parse_address(text)
            if address.mail and not self._store.setting(MAIL, False):
                problem = "this service sends no e-mails: it was started without --mail-command"
                raise InvalidSpec(field, problem, "web addresses")
            if not (caller.is_admin or is_given(address, given)) and cover(address, rules) is Cover.NO:
                raise InvalidSpec(field, f"{address.target} is not among what {caller.name} may use", _known(rules))

    def view(self, caller: Caller, user: str | None) -> types.Notify:
        name = self._owner(caller, user)
        wanted = self._store.subscription(name)
        return types.Notify(
            user=name,
            addresses=list(wanted.addresses),
            given=list(wanted.given),
            allowed=self._rules(),
            mail=bool(self._store.setting(MAIL, False)),
            notices=[_shown(notice) for notice in self._store.notices_of(name, _SHOWN)],
        )

    def set(self, caller: Caller, user: str | None, addresses: Sequence[str]) -> types.Notify:
        """Instead of those before. What an administrator gives another user needs no rule, now or later."""
        name = self._owner(caller, user)
        self.check(caller, addresses, "addresses")
        wanted = tuple(dict.fromkeys(str(parse_address(text)) for text in addresses))
        given = wanted if name != caller.name else self._store.subscription(name).given
        self._store.set_addresses(name, wanted, given)
        return self.view(caller, user)

    def secret(self, caller: Caller, new: bool) -> str:
        """The caller's own, with which webhooks are signed; made when it is first asked for."""
        caller.must_be_person()
        return secret_of(self._store, caller.name, new)

    def test(self, caller: Caller) -> int:
        """Tell all of the caller's addresses something; how many these are."""
        caller.must_be_person()
        said = content.of_test(caller.name, self._clock())
        targets = {parse_address(text).target for text in self._store.subscription(caller.name).addresses}
        self._store.add_notices([NewNotice(caller.name, target, said) for target in sorted(targets)], self._clock())
        self._store.note_act("notify.test", f"notices of {caller.name}", caller.name, addresses=len(targets))
        return len(targets)

    def _owner(self, caller: Caller, user: str | None) -> str:
        name = caller.acts_for(user, "look after the notices of another user")
        if self._store.user(name) is None:
            raise NotFound(f"there is no user {name!r}")
        return name

    def _rules(self) -> list[str]:
        return list(self._store.setting(RULES, []))


def secret_of(store: Store, user: str, new: bool = False) -> str:
    """With which the user's webhooks are signed; made when it is first needed."""
    known = store.subscription(user).secret
    return known if known and not new else store.keep_secret(user, webhook.new_secret(), renew=new)


def _shown(notice: Notice) -> types.Notice:
    return types.Notice(
        id=notice.content["id"],
        type=notice.content["type"],
        text=notice.content["text"],
        address=notice.address,
        created_at=iso(notice.created_at),
        state=notice.state,
        tries=notice.tries,
        next_try_at=iso(notice.due_at) if notice.state == "waiting" else None,
        problem=notice.problem,
    )


def is_given(address: Address, given: Iterable[str]) -> bool:
    """Whether an administrator gave it: of which ends it tells is the user's choice."""
    return address.target in {parse_address(text).target for text in given}


def _known(rules: Sequence[str]) -> str:
    if not rules:
        return "those that an administrator gave you (schedulearn notify), or has allowed with up --allow-notify"
    return ", ".join("any public https:// address" if rule == PUBLIC else rule for rule in rules)
