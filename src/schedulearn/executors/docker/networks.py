"""A network for each attempt on its engine, so that no job reaches another's containers; and who has to do without.

Networks are small, because an engine has addresses for some thirty of its usual ones only. Like containers they are
found again by their labels, and removed once they are not needed.
"""

import hashlib
import ipaddress
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from schedulearn.core.domain.errors import ExecutorError, InvalidSpec
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import Launcher
from schedulearn.executors.docker.calls import Calls, Refused
from schedulearn.executors.docker.containers import State
from schedulearn.executors.docker.names import INSTANCE, NETWORK, SETUP, network_name, worker_of
from schedulearn.executors.docker.rules import Rules

log = logging.getLogger(__name__)
OWN, SHARED = "own", "host"  # a network of the attempt's own; that of its server
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_MTU = "com.docker.network.driver.mtu"
_TAKEN = 3  # addresses of a network that no container has: its own, the gateway's, that of all
_FIRST = 2  # the first that one can have
_SMALLEST = 4  # bits of addresses
_SMALLEST_RANGE = 24  # bits that are fixed
_RANGES = "private addresses such as 198.18.0.0/15 or 10.200.0.0/16, at least 256 of them"
_TRIES = 50  # networks that others may have made since we looked


def network_for(launch: Launch, rules: Rules, usual: str) -> tuple[str, str]:
    """OWN, or the name of one; and why that is its server's, if it is, in words for its user."""
    if rules.network:
        return rules.network, ""
    why = _why_shared(launch, usual)
    if why and not rules.host_network:
        raise ExecutorError(f"it would share the network of its server, which is not allowed here: {why}")
    return (SHARED, why) if why else (OWN, "")


def _why_shared(launch: Launch, usual: str) -> str:
    if usual == SHARED:
        return "its engine has no bridge network"
    if not launch.together:
        return "its workers are on several servers"
    if launch.spec.launcher is Launcher.ELASTIC and launch.spec.workers.max > 1:
        if launch.elsewhere:
            return "workers may join it on other servers"
        if urlsplit(launch.url).hostname in LOOPBACK:
            return "its workers meet at the service, which jobs are told to find on loopback: see up --url"
    return ""


def check_networks(text: str, field: str = "--networks") -> None:
    """InvalidSpec if networks cannot take their addresses there."""
    try:
        found = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise InvalidSpec(field, f"{text[:50]!r} is no range of addresses: {error}", _RANGES) from error
    if found.prefixlen > _SMALLEST_RANGE or not found.is_private:
        raise InvalidSpec(field, f"{text} is too small, or not private", _RANGES)


@dataclass(frozen=True, slots=True)
class Network:
    """One that is there."""

    name: str
    subnet: ipaddress.IPv4Network

    def address(self, rank: int) -> str:
        """Known before its container is there; only where ranks are not given out anew."""
        return str(self.subnet[_FIRST + rank])


class Networks:
    """Of one engine. Thread-safe; calls fail as `Calls` does."""

    def __init__(self, calls: Calls, instance: str, rules: Rules) -> None:
        self._calls, self._instance = calls, instance
        self._range = ipaddress.IPv4Network(rules.networks)
        self._held: dict[str, set[str]] = {}  # by whom each is needed
        self._lock = threading.Lock()  # held over calls: a network must not go between the look and the use

    def hold(self, whose: str, user: str, size: int) -> Network:
        """The network of `whose`, made if need be, for `size` containers; it stays until `user` lets go."""
        with self._lock:
            self._held.setdefault(whose, set()).add(user)
            return self._find(whose) or self._make(whose, size)

    def note(self, whose: str, user: str) -> None:
        """A worker has used it since an earlier life of the service."""
        with self._lock:
            self._held.setdefault(whose, set()).add(user)

    def let_go(self, whose: str, user: str) -> None:
        """The last one takes the network with it, as far as that is possible now."""
        with self._lock:
            users = self._held.get(whose)
            if users is None:
                return
            users.discard(user)
            if not users:
                del self._held[whose]
                with suppress(ExecutorError):
                    self._remove(self._listed(whose, self._calls), self._calls)

    def tidy(self, found: Iterable[State], calls: Calls) -> None:
        """Remove what an earlier life left, or could not remove. `found`: all our containers, as they were just now.

        `calls` are those of who must not wait for long.
        """
        needed = {whose for state in found if (whose := _whose(state))}
        if not self._lock.acquire(blocking=False):
            return  # one is just being made; there will be another round
        try:
            needed |= set(self._held)
            self._remove([told for told in self._listed("", calls) if told["Labels"][NETWORK] not in needed], calls)
        finally:
            self._lock.release()

    def _listed(self, whose: str, calls: Calls) -> list[Any]:
        labels = [f"{INSTANCE}={self._instance}", f"{NETWORK}={whose}" if whose else NETWORK]
        with calls.api() as api:
            return list(api.networks(filters={"label": labels}))

    def _find(self, whose: str) -> Network | None:
        return next((_network(told) for told in self._listed(whose, self._calls)), None)

    def _make(self, whose: str, size: int) -> Network:
        with self._calls.api() as api:
            known = api.networks()
        name = network_name(self._instance, whose)
        for tried, subnet in enumerate(self._free(name, size, known)):
            try:
                return self._create(name, whose, subnet, known)
            except Refused as refusal:
                if "overlap" not in str(refusal) or tried >= _TRIES:
                    raise
        raise ExecutorError(f"there is no room left in {self._range} for another network: see up --networks")

    def _free(self, name: str, size: int, known: Iterable[Any]) -> Iterator[ipaddress.IPv4Network]:
        """Where to begin differs, so that services that share a server seldom want the same."""
        bits = max(_SMALLEST, (size + _TAKEN - 1).bit_length())
        number = self._range.num_addresses >> bits
        taken = [subnet for told in known for subnet in _subnets(told)]
        begin = int(hashlib.sha256(name.encode()).hexdigest(), 16)
        for offset in range(number):
            address = self._range[(begin + offset) % number << bits]
            subnet = ipaddress.IPv4Network(f"{address}/{32 - bits}")
            if not any(subnet.overlaps(other) for other in taken):
                yield subnet

    def _create(self, name: str, whose: str, subnet: ipaddress.IPv4Network, known: Iterable[Any]) -> Network:
        from docker.types import IPAMConfig, IPAMPool

        with self._calls.api() as api:
            api.create_network(
                name,
                driver="bridge",
                options=_like_the_bridge(known),
                ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
                check_duplicate=True,
                labels={INSTANCE: self._instance, NETWORK: whose},
            )
        return Network(name, subnet)

    def _remove(self, listed: Iterable[Any], calls: Calls) -> None:
        """One that is still in use, by a container that is just being removed, goes with the next round."""
        for told in listed:
            try:
                with calls.api() as api:
                    api.remove_network(told["Id"])
            except Refused as refusal:
                log.debug("the network %s stays for now: %s", told["Name"], refusal)


def setup_network(key: str) -> str:
    """Whose network that of the container is which prepares an image."""
    return f"setup-{key}"


def _whose(state: State) -> str:
    worker = worker_of(state.labels)
    if worker:
        return str(worker.of)
    key = state.labels.get(SETUP)
    return setup_network(key) if key else ""


def _network(told: Any) -> Network:
    return Network(told["Name"], next(_subnets(told)))


def _subnets(told: Any) -> Iterator[ipaddress.IPv4Network]:
    for pool in (told.get("IPAM") or {}).get("Config") or ():
        with suppress(ValueError, KeyError):  # also one of IPv6
            yield ipaddress.IPv4Network(pool["Subnet"])


def _like_the_bridge(known: Iterable[Any]) -> dict[str, str]:
    """Where a server's way out takes only smaller packets, its administrator said so of the usual bridge."""
    usual: dict[str, Any] = next((told for told in known if told["Name"] == "bridge"), {})
    mtu = (usual.get("Options") or {}).get(_MTU)
    return {_MTU: mtu} if mtu else {}
