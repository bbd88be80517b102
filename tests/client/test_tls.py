"""Which certificates are trusted, and that nothing is said to anybody who has another one."""

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulearn.client import Client, ClientError, NotTrusted, ServiceUnreachable
from schedulearn.client.settings import find_service
from schedulearn.domain.errors import InvalidSpec
from schedulearn.job.group import Away, Rendezvous
from schedulearn.job.sender import Sender, Target
from schedulearn.pinned import Address, address_of, with_pin, without_pin
from schedulearn.service.certificate import Certificate, certificate_for
from schedulearn.service.config import Options

PIN = "ab" * 32
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{"status": "ok"}'


class Server:
    """Answers every request over TLS in the same way, and keeps what it was told."""

    def __init__(self, shown: Certificate) -> None:
        self.heard: list[bytes] = []
        self._context, self._pin = shown.context(), shown.pin
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with connection:
                try:
                    with self._context.wrap_socket(connection, server_side=True) as secure:
                        secure.settimeout(60)
                        self.heard.append(secure.recv(65536))
                        if self.heard[-1]:
                            secure.sendall(ANSWER)
                except OSError:
                    self.heard.append(b"")
            if self.heard and self.heard[-1].startswith(b"BYE"):
                return

    def end(self) -> list[bytes]:
        """All that was said to it; connections are taken one after the other."""
        if self._thread.is_alive():
            connection = address_of(with_pin(self.url, self._pin)).connect(60)
            connection.connect()
            connection.sock.sendall(b"BYE")
            connection.close()
            self._thread.join(60)
            self._listening.close()
        return self.heard[:-1]


@pytest.fixture
def own(tmp_path: Path) -> Certificate:
    made = certificate_for(Options(tmp_path / "data", tls=True))
    assert made
    return made


@pytest.fixture
def server(own: Certificate) -> Iterator[Server]:
    made = Server(own)
    yield made
    made.end()


def test_the_right_fingerprint_is_enough(server: Server, own: Certificate) -> None:
    with Client(with_pin(server.url, own.pin), "sl_secret") as client:
        assert client.health() == {"status": "ok"}
    [heard] = server.end()
    assert b"Bearer sl_secret" in heard
    assert b"#" not in heard
    assert b"sha256" not in heard


@pytest.mark.parametrize("call", ["request", "stream"])
def test_nothing_is_said_to_somebody_with_another_certificate(server: Server, own: Certificate, call: str) -> None:
    wrong = Client(with_pin(server.url, PIN), "sl_secret")
    with wrong as client, pytest.raises(NotTrusted, match="nothing was sent to it") as caught:
        client.whoami() if call == "request" else next(client.events(after=0, follow=True))
    assert own.pin in str(caught.value)
    assert PIN in str(caught.value)
    assert set(server.end()) == {b""}


def test_nobody_vouches_for_a_certificate_that_was_made_here(server: Server) -> None:
    with Client(server.url, "sl_secret") as client, pytest.raises(NotTrusted, match="self-signed"):
        client.whoami()
    assert set(server.end()) == {b""}


def test_with_its_certificate_as_an_authority_the_name_counts(
    server: Server, own: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own.cert))
    for host in ("127.0.0.1", "localhost"):
        with Client(server.url.replace("127.0.0.1", host), "sl_secret") as client:
            assert client.health() == {"status": "ok"}
    with Client(server.url.replace("127.0.0.1", "127.0.0.2"), "x") as client, pytest.raises(ServiceUnreachable):
        client.health()


def test_jobs_say_nothing_to_others_either(server: Server, own: Certificate, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sl_secret")
    for pin in (PIN, own.pin):
        sender = Sender(Target(with_pin(server.url, pin), str(tmp_path / "token"), "1.1.0"), None)
        assert sender._post([b"{}"]) is (pin == own.pin)
        sender.close()
    with pytest.raises(Away, match="nothing was sent to it"):
        Rendezvous(with_pin(server.url, PIN), str(tmp_path / "token"), "1.1.0").waiting()
    assert [b"sl_secret" in heard for heard in server.end() if heard] == [True]


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://lab:7311", Address(False, "lab", 7311, "", "")),
        ("https://lab/below/", Address(True, "lab", None, "/below", "")),
        (f"https://lab#sha256={PIN}", Address(True, "lab", None, "", PIN)),
        (f"https://[::1]:1/x#sha256={':'.join(['AB'] * 32)}", Address(True, "::1", 1, "/x", PIN)),
    ],
)
def test_addresses(url: str, parts: Address) -> None:
    assert address_of(url) == parts


@pytest.mark.parametrize(
    "url",
    ["lab:7311", "ftp://lab", "http://", "http://lab:x", "http://lab:99999", "http://lab:0", "https://lab#x",
     "https://lab#sha256=", f"https://lab#sha256={PIN}0", f"http://lab#sha256={PIN}", f"https://lab#md5={PIN}",
     f"https://lab#sha256={'zz' * 32}"],
)  # fmt: skip
def test_what_is_no_address_is_said_so(url: str) -> None:
    with pytest.raises(ValueError, match=r"address such as|must be the fingerprint"):
        address_of(url)
    with pytest.raises(ClientError):
        Client(url, "x")


def test_the_stored_fingerprint_belongs_to_the_stored_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULEARN_DATA", str(tmp_path))
    stored = f"https://127.0.0.1:1#sha256={PIN}"
    (tmp_path / "client.json").write_text(f'{{"url": "{stored}", "token": "sl_stored"}}')
    assert find_service() == (stored, "sl_stored")
    assert find_service("https://127.0.0.1:1/") == (stored, "sl_stored")
    assert find_service("https://127.0.0.1:1", "sl_mine") == (stored, "sl_mine")
    for other in ("https://127.0.0.1:2", "http://127.0.0.1:1", f"https://127.0.0.1:1#sha256={'cd' * 32}"):
        assert find_service(other) == (other, "")
    assert without_pin(stored) == "https://127.0.0.1:1"


# --- the service's own certificate


def test_it_is_made_once_and_kept_to_itself(tmp_path: Path) -> None:
    options = Options(tmp_path / "data", host="0.0.0.0", tls=True)
    first, again = certificate_for(options), certificate_for(options)
    assert first
    assert first == again
    assert (tmp_path / "data" / "tls-server").stat().st_mode & 0o777 == 0o700
    assert first.key.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["tls-server"]
    assert certificate_for(Options(tmp_path / "other", tls=True)) != first
    assert certificate_for(Options(tmp_path / "data")) is None


def test_a_given_certificate_is_used_as_it_is(tmp_path: Path, own: Certificate) -> None:
    given = certificate_for(Options(tmp_path, tls_cert=own.cert, tls_key=own.key))
    assert given
    assert given.pin == own.pin
    assert given.context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_files_that_cannot_be_used_are_named(tmp_path: Path, own: Certificate) -> None:
    other = certificate_for(Options(tmp_path / "other", tls=True))
    assert other
    (tmp_path / "text").write_text("no certificate")

    def use(cert: Path, key: Path) -> None:
        found = certificate_for(Options(tmp_path, tls_cert=cert, tls_key=key))
        assert found
        found.context()

    with pytest.raises(InvalidSpec, match="the key is not that of the certificate"):
        use(own.cert, other.key)
    with pytest.raises(InvalidSpec, match="is no certificate"):
        use(tmp_path / "text", own.key)
    with pytest.raises(InvalidSpec, match="cannot be used"):
        use(own.cert, tmp_path / "text")
    with pytest.raises(InvalidSpec, match="cannot be read: No such file"):
        use(tmp_path / "nothing", own.key)
    with pytest.raises((InvalidSpec, OSError), match="No such file"):
        use(own.cert, tmp_path / "nothing")
