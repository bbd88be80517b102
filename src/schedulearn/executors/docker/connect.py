"""The way to one Docker Engine. Every client made here has a time-out on every call."""

import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.executors.docker.address import Address, parse_address
from schedulearn.executors.docker.tunnel import Tunnel

if TYPE_CHECKING:
    import docker

TIMEOUT = 10.0  # seconds for one call
OLDEST_API = "1.41"  # Docker 20.10
_FILES = ("ca.pem", "cert.pem", "key.pem")


class Engine:
    """Makes clients of one engine, over its socket, TCP with TLS, or SSH.

    `certificates` is a folder with ca.pem, cert.pem and key.pem, or with a folder of them for each host;
    without it, DOCKER_CERT_PATH.
    """

    def __init__(self, address: str, certificates: Path | None = None) -> None:
        self.address: Address = parse_address(address)
        self._certificates = certificates
        self._tunnel = Tunnel(self.address) if self.address.scheme == "ssh" else None

    def client(self, timeout: float = TIMEOUT, pool: int = 10) -> "docker.DockerClient":
        """A client with connections of its own; ExecutorError, in words, if the engine does not answer."""
        client = None
        try:
            client = self._new_client(timeout, pool)
            # The newest API that both sides know; the question itself already goes by our own settings.
            client.api._version = client.version(api_version=False)["ApiVersion"]
        except Exception as error:
            if client is not None:
                client.close()
            raise ExecutorError(self.words(error)) from error
        return client

    def close(self) -> None:
        if self._tunnel:
            self._tunnel.close()

    def words(self, error: BaseException) -> str:
        """What went wrong on the way to the engine, so that a person can act on it."""
        if isinstance(error, ExecutorError):
            return str(error)
        chain = list(_causes(error))
        for kind, words in _WORDS:
            if found := next((e for e in chain if isinstance(e, kind)), None):
                return str(words(self, found))
        names = {type(e).__name__ for e in chain}
        if names & {"ReadTimeout", "ReadTimeoutError", "ConnectTimeout", "ConnectTimeoutError", "TimeoutError"}:
            return f"{self.address} does not answer: it is frozen, very slow, or something else listens there"
        if names & {"NameResolutionError", "gaierror"}:
            return f"there is no host {self.address.host}"
        if names & {"ConnectionError", "ProtocolError", "RemoteDisconnected", "JSONDecodeError"}:
            return self._hung_up()
        return f"{self.address}: {error}"

    def _hung_up(self) -> str:
        if self._tunnel is None:
            return f"what listens at {self.address} does not speak as a Docker Engine does"
        return (
            f"SSH gets into {self.address.host}, but no engine answers at {self.address.path} there: "
            f"is Docker running, and is that user in the group docker? ({self._tunnel.said() or 'hung up'})"
        )

    def _new_client(self, timeout: float, pool: int) -> "docker.DockerClient":
        import docker  # takes a while, and not every service needs it

        url, tls = self._url()
        client = docker.DockerClient(base_url=url, version=OLDEST_API, timeout=timeout, tls=tls, max_pool_size=pool)
        client.api.trust_env = False  # no proxy of the environment stands between us and the server
        return client

    def _url(self) -> tuple[str, Any]:
        address = self.address
        if self._tunnel:
            return f"unix://{self._tunnel.socket()}", False
        if address.scheme == "unix":
            return f"unix://{address.path}", False
        import docker.tls

        ca, cert, key = (str(path) for path in self._files())
        host = f"[{address.host}]" if ":" in address.host else address.host
        return f"https://{host}:{address.port}", docker.tls.TLSConfig((cert, key), ca, verify=True)

    def _files(self) -> list[Path]:
        places = []
        if self._certificates:
            places += [self._certificates / self.address.host, self._certificates]
        if variable := os.environ.get("DOCKER_CERT_PATH"):
            places.append(Path(variable))
        for place in places:
            files = [place / name for name in _FILES]
            if all(file.is_file() for file in files):
                return files
        looked = " or ".join(str(place) for place in places) or "DOCKER_CERT_PATH"
        raise ExecutorError(f"tcp:// is used with TLS only: put ca.pem, cert.pem and key.pem into {looked}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it holds and what it came from: libraries wrap them several times."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        found = waiting.pop(0)
        if isinstance(found, BaseException) and not any(found is e for e in seen):
            seen.append(found)
            waiting += [found.__cause__, found.__context__, getattr(found, "reason", None), *found.args]
    yield from seen


def _untrusted(engine: Engine, error: Any) -> str:
    return (
        f"the certificate of {engine.address.host} is not trusted ({error.verify_message}): it must be signed by "
        f"our ca.pem and name {engine.address.host}"
    )


def _tls_failed(engine: Engine, error: Any) -> str:
    why = getattr(error, "reason", None) or error
    return (
        f"TLS with {engine.address} failed ({why}): the engine must run with --tlsverify, and its CA must have "
        "signed our cert.pem"
    )


def _refused(engine: Engine, _: BaseException) -> str:
    return f"nothing listens at {engine.address}: is Docker running there?"


def _not_there(engine: Engine, error: Any) -> str:
    if engine.address.scheme == "unix":
        return f"there is no socket {engine.address.path}: is Docker running on this machine?"
    return f"{engine.address}: {error.strerror}"


def _not_permitted(engine: Engine, _: BaseException) -> str:
    return (
        f"the user of the service may not use {engine.address}: "
        "add it to the group docker (which gives it the rights of root), and start the service anew"
    )


_WORDS: tuple[tuple[type[BaseException], Any], ...] = (
    (ssl.SSLCertVerificationError, _untrusted),
    (ssl.SSLError, _tls_failed),
    (ConnectionRefusedError, _refused),
    (FileNotFoundError, _not_there),
    (PermissionError, _not_permitted),
)
