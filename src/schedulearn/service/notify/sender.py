"""Sending one notice: the last look at whether it may go there, then by which way."""

from collections.abc import Callable, Sequence

from schedulearn.core.domain.notice import Address, Cover, cover, parse_address
from schedulearn.service.common.auth import ADMIN
from schedulearn.service.notify import mail, webhook
from schedulearn.service.notify.content import Undelivered
from schedulearn.service.notify.subscriptions import is_given, secret_of
from schedulearn.store import Notice, Store

_HTTP_SECONDS = 10.0
_MAIL_SECONDS = 30.0


class Sender:
    """Sends one notice, once, if it still may go there."""

    def __init__(self, store: Store, clock: Callable[[], float], rules: Sequence[str], mail_command: str) -> None:
        self._store, self._clock, self._rules, self._mail = store, clock, rules, mail_command

    def __call__(self, notice: Notice) -> None:
        address = parse_address(notice.address)
        allowed = self._allowed(address, notice.user)
        if allowed is Cover.NO:
            raise Undelivered("this address is not allowed any more", final=True)
        if address.mail:
            if not self._mail:
                raise Undelivered("this service was started without --mail-command", final=True)
            mail.send(self._mail, address.mail, notice.content, self._clock(), _MAIL_SECONDS)
        else:
            secret = secret_of(self._store, notice.user)
            only = allowed is Cover.IF_PUBLIC
            webhook.post(address.target, notice.content, secret, self._clock(), public_only=only, timeout=_HTTP_SECONDS)

    def _allowed(self, address: Address, user: str) -> Cover:
        row = self._store.user(user)
        if (row and row.role == ADMIN) or is_given(address, self._store.subscription(user).given):
            return Cover.YES
        return cover(address, self._rules)
