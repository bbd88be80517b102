"""Which certificates are trusted, and that nothing is said to anybody who has another one."""

import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulearn.client import Client, ClientError, NotTrusted, ServiceUnreachable
from schedulearn.client.settings import find_service
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.job.group import Away, Rendezvous
from schedulearn.job.sender import Sender
from schedulearn.job.service import Service
from schedulearn.pinned import Address, address_of, with_pin, without_pin
from schedulearn.service.common.config import Options
from schedulearn.service.upkeep.certificate import Certificate, certificate_for
from support.tls import Listener, dated

PIN = "ab" * 32


@pytest.fixture
def own(tmp_path: Path) -> Certificate:
    made = certificate_for(Options(tmp_path / "data", tls=True))
    assert made
    return made


@pytest.fixture
def server(own: Certificate) -> Iterator[Listener]:
    with Listener(own) as made:
        yield made


def test_the_right_fingerprint_is_enough(server: Listener, own: Certificate) -> None:
    with Client(with_pin(server.url, own.pin), "sl_secret") as client:
        assert client.health() == {"status": "ok"}
    [heard] = server.end()
    assert b"Bearer sl_secret" in heard
    assert b"#" not in heard
    assert b"sha256" not in heard


@pytest.mark.parametrize("call", ["request", "stream"])
def test_nothing_is_said_to_somebody_with_another_certificate(server: Listener, own: Certificate, call: str) -> None:
    wrong = Client(with_pin(server.url, PIN), "sl_secret")
    with wrong as client, pytest.raises(NotTrusted, match="nothing was sent to it") as caught:
        client.whoami() if call == "request" else next(client.events(after=0, follow=True))
    assert own.pin in str(caught.value)
    assert PIN in str(caught.value)
    assert set(server.end()) == {b""}


def test_nobody_vouches_for_a_certificate_that_was_made_here(server: Listener) -> None:
    with Client(server.url, "sl_secret") as client, pytest.raises(NotTrusted, match="self-signed"):
        client.whoami()
    assert set(server.end()) == {b""}


def test_with_its_certificate_as_an_authority_the_name_counts(
    server: Listener, own: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own.cert))
    for host in ("127.0.0.1", "localhost"):
        with Client(server.url.replace("127.0.0.1", host), "sl_secret") as client:
            assert client.health() == {"status": "ok"}
    with Client(server.url.replace("127.0.0.1", "127.0.0.2"), "x") as client, pytest.raises(ServiceUnreachable):
        client.health()


def test_jobs_say_nothing_to_others_either(server: Listener, own: Certificate, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sl_secret")
    for pin in (PIN, own.pin):
        sender = Sender(Service(with_pin(server.url, pin), str(tmp_path / "token"), "1.1.0"), None)
        assert sender._post([b"{}"]) is (pin == own.pin)
        sender.close()
    with pytest.raises(Away, match="nothing was sent to it"):
        Rendezvous(Service(with_pin(server.url, PIN), str(tmp_path / "token"), "1.1.0")).waiting()
    assert [b"sl_secret" in heard for heard in server.end() if heard] == [True]


def test_jobs_tell_once_that_they_do_not_trust_who_answers(
    server: Listener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Elsewhere they only wait: nobody would know why."""
    url = with_pin(server.url, PIN)
    sender, service = Sender(Service(url, "", "1.1.0"), None), Rendezvous(Service(url, "", "1.1.0"))
    for _ in range(3):
        assert not sender._post([b"{}"])
        with pytest.raises(Away):
            service.waiting()
    said = [record.getMessage() for record in caplog.records]
    assert [words.partition(",")[0] for words in said] == ["reports are not sent", "the other workers are not met"]
    assert all("is not trusted: its certificate has the fingerprint" in words for words in said)
    caplog.clear()
    server.end()
    assert not sender._post([b"{}"])  # nobody answers: that passes
    assert caplog.records == []


EXPIRED, EARLY = "its certificate has expired", "its certificate is not valid yet, or the clock of this machine is slow"


@pytest.mark.parametrize(("first", "last", "why"), [(-9, -2, EXPIRED), (2, 9, EARLY)], ids=["expired", "not yet"])
def test_dates_count_where_an_authority_vouches(
    tmp_path: Path, first: int, last: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = dated(tmp_path / "dated", first, last)
    monkeypatch.setenv("SSL_CERT_FILE", str(shown.cert))
    with Listener(shown) as server:
        with Client(server.url, "sl_secret") as client, pytest.raises(NotTrusted) as refused:
            client.whoami()
        assert str(refused.value) == f"what answers at {server.url} is not trusted: {why}"
        with pytest.raises(Away, match=f"^{why}$"):
            Rendezvous(Service(server.url, "", "1.1.0")).waiting()
        with Client(with_pin(server.url, shown.pin), "sl_secret") as client:  # whoever knows it looks at nothing else
            assert client.health() == {"status": "ok"}
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
    with pytest.raises(InvalidSpec, match="nothing cannot be read: No such file"):
        use(own.cert, tmp_path / "nothing")
    with pytest.raises(InvalidSpec, match="data cannot be read: Is a directory"):
        use(own.cert, tmp_path / "data")


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder that every account may enter."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize(
    ("mode", "what"), [(0o644, "read"), (0o604, "read"), (0o602, "changed"), (0o640, ""), (0o600, ""), (0o400, "")]
)
@pytest.mark.parametrize("linked", [False, True])
def test_a_key_that_every_job_could_read_is_refused(passable: Path, mode: int, what: str, linked: bool) -> None:
    own = dated(passable / "dated", -1, 1)
    own.cert.parent.chmod(0o755)
    own.key.chmod(mode)
    key = own.key
    if linked:
        (passable / "link").symlink_to(key)
        key = passable / "link"
    given = certificate_for(Options(passable, tls_cert=own.cert, tls_key=key))
    assert given
    if not what:
        given.context()
        return
    with pytest.raises(InvalidSpec, match=f"can be {what} by every account of this machine") as refused:
        given.context()
    assert f"chmod 600 {key}" in str(refused.value)
    own.cert.parent.chmod(0o750)
    given.context()  # nobody else gets there


@pytest.mark.parametrize(
    ("first", "last", "words"), [(-9, -2, "has expired on 20"), (2, 9, "is not valid before 20"), (-1, 1, "")]
)
def test_dates_that_are_wrong_today_are_told_at_the_start(tmp_path: Path, first: int, last: int, words: str) -> None:
    warnings = dated(tmp_path / "dated", first, last).warnings()
    assert len(warnings) == bool(words)
    assert all(words in warning for warning in warnings)
