"""Whom a job tells that it is over: addresses as people write them, and which of them may be used."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from urllib.parse import SplitResult, urlsplit

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.units import short

ALLOWED = "an address such as https://hooks.example.org/x or ann@example.org; failed: in front of it for failures alone"
RULES_ALLOWED = "https://hooks.example.org/below, @example.org, or public"
PUBLIC = "public"  # the rule that covers webhooks anywhere but in private networks
_LONGEST = 500
_ONLY = re.compile(r"(failed|succeeded):(.+)")
_MAIL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{0,63}@(?P<domain>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)")
_PORTS = {"http": 80, "https": 443}
_SLASH = r"/|%2f|%5c"  # whatever some server takes for one
_STEPS_BACK = re.compile(rf"(?:^|{_SLASH})(?:\.|%2e){{1,2}}(?:{_SLASH}|;|%3b|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a notice goes, and of which ends it tells."""

    target: str  # mailto:… or http(s)://…
    only: str = ""  # failed | succeeded; "": any end

    @property
    def mail(self) -> str:
        """The e-mail address; empty for a webhook."""
        return self.target.removeprefix("mailto:") if self.target.startswith("mailto:") else ""

    def wants(self, state: JobState) -> bool:
        return not self.only or self.only == state.value

    def __str__(self) -> str:
        return f"{self.only}:{self.target}" if self.only else self.target


class Cover(Enum):
    """What the administrator's rules say of an address."""

    NO = "no"
    YES = "yes"
    IF_PUBLIC = "if public"  # if its host turns out to be outside of private networks when it is called


def parse_address(text: str, field: str = "notify") -> Address:
    """InvalidSpec if it is none."""
    match = _ONLY.fullmatch(text.strip())
    only, target = (match[1], match[2].strip()) if match else ("", text.strip())
    if len(target) > _LONGEST:
        raise InvalidSpec(field, "an address is too long", f"at most {_LONGEST} characters")
    if target.startswith(("http://", "https://")):
        _split(target, field)
        return Address(target, only)
    mail = target.removeprefix("mailto:")
    if not _MAIL.fullmatch(mail):
        raise InvalidSpec(field, f"{short(text)} is neither a web nor an e-mail address", ALLOWED)
    return Address(f"mailto:{mail}", only)


def check_rule(rule: str, field: str) -> str:
    """A rule as `up --allow-notify` takes it; InvalidSpec if it is none."""
    if rule == PUBLIC or (rule.startswith("@") and _MAIL.fullmatch(f"x{rule}")):
        return rule
    if rule.startswith(("http://", "https://")):
        parts = _split(rule, field)
        if not parts.query:
            return rule
    raise InvalidSpec(field, f"{short(rule)} cannot be allowed", RULES_ALLOWED)


def cover(address: Address, rules: Iterable[str]) -> Cover:
    """Whether one of the rules covers it."""
    found = {_covers(rule, address) for rule in rules}
    return Cover.YES if Cover.YES in found else Cover.IF_PUBLIC if Cover.IF_PUBLIC in found else Cover.NO


def _covers(rule: str, address: Address) -> Cover:
    if match := _MAIL.fullmatch(address.mail):
        return Cover.YES if rule.lower() == f"@{match['domain']}".lower() else Cover.NO
    if rule == PUBLIC:
        return Cover.IF_PUBLIC if address.target.startswith("https://") else Cover.NO
    if rule.startswith("@"):
        return Cover.NO
    return Cover.YES if _below(urlsplit(rule), urlsplit(address.target)) else Cover.NO


def _below(rule: SplitResult, target: SplitResult) -> bool:
    if _server(rule) != _server(target):
        return False
    path = rule.path.rstrip("/")
    return target.path.rstrip("/") == path or target.path.startswith(f"{path}/")


def _server(parts: SplitResult) -> tuple[str, str | None, int]:
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def _split(url: str, field: str) -> SplitResult:
    """A web address that means the same to everybody who reads it; InvalidSpec if it does not."""
    if not url.isascii() or not url.isprintable() or re.search(r"[\s\\\"<>^`{|}]", url):
        raise InvalidSpec(field, f"{short(url)} has characters that a web address has not", ALLOWED)
    try:
        parts = urlsplit(url)
        right = bool(parts.hostname) and parts.port != 0
    except ValueError:
        right = False
    if not right:
        raise InvalidSpec(field, f"{short(url)} is no web address", ALLOWED)
    if "@" in parts.netloc or "#" in url:
        raise InvalidSpec(field, "a web address must have no password and no fragment", ALLOWED)
    if _STEPS_BACK.search(parts.path):
        raise InvalidSpec(field, "a web address must have no dots as a part of its path", ALLOWED)
    return parts
