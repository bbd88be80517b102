"""The certificate that the service shows: one that was given, or one that it makes for itself, once."""

import hashlib
import ipaddress
import os
import shutil
import socket
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.service.common.config import Options

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

_CERT, _KEY = "cert.pem", "key.pem"
_LASTS = timedelta(days=3650)  # clients know it by its fingerprint: a new one would lock them all out


@dataclass(frozen=True, slots=True)
class Certificate:
    cert: Path
    key: Path
    pin: str  # the SHA-256 of it, as 64 digits: what clients may know it by

    def context(self) -> ssl.SSLContext:
        """For a server. InvalidSpec if the files cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # a worker that waits for an answer would take a ticket for it
        _check_key(self.key)
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_password)
        except ssl.SSLError as error:
            why = "the key is not that of the certificate" if error.reason == "KEY_VALUES_MISMATCH" else error.reason
            raise InvalidSpec("--tls-cert", f"{self.cert} and {self.key} cannot be used: {why}", _ALLOWED) from error
        except OSError as error:
            raise InvalidSpec("--tls-key", f"{self.key} cannot be read: {error.strerror}", _ALLOWED) from error
        return context

    def warnings(self) -> list[str]:
        """What is wrong with its dates today."""
        # Heavy, and needed only where TLS is spoken.
        from cryptography import x509

        try:
            found = x509.load_pem_x509_certificate(self.cert.read_bytes())
        except ValueError:
            return []  # OpenSSL could read it
        now = datetime.now(UTC)
        if now < found.not_valid_before_utc:
            when = f"is not valid before {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        elif now > found.not_valid_after_utc:
            when = f"has expired on {found.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        else:
            return []
        return [f"The certificate {self.cert} {when}: only who knows its fingerprint trusts it, and no browser does."]


_ALLOWED = "a certificate in PEM, with those that sign it below, and its key in PEM without a password"


def certificate_for(options: Options) -> Certificate | None:
    """None: no TLS."""
    if options.tls_cert and options.tls_key:
        return Certificate(options.tls_cert, options.tls_key, fingerprint(options.tls_cert))
    if not options.tls:
        return None
    folder = options.folder.own_tls
    if not folder.exists():
        _make(folder, _names(options.host))
    return Certificate(folder / _CERT, folder / _KEY, fingerprint(folder / _CERT))


def fingerprint(cert: Path) -> str:
    """The SHA-256 of the first certificate in a file; InvalidSpec if there is none."""
    try:
        content = cert.read_text("ascii")
        begin, end = content.index("-----BEGIN CERTIFICATE-----"), content.index("-----END CERTIFICATE-----")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(content[begin:end] + "-----END CERTIFICATE-----")).hexdigest()
    except OSError as error:
        raise InvalidSpec("--tls-cert", f"{cert} cannot be read: {error.strerror}", _ALLOWED) from error
    except ValueError as error:
        raise InvalidSpec("--tls-cert", f"{cert} is no certificate", _ALLOWED) from error


def _check_key(key: Path) -> None:
    """InvalidSpec if every account of this machine could read it, and so every job that is a plain process."""
    try:
        found = key.resolve(strict=True)
        closed = any(not folder.stat().st_mode & 0o001 for folder in found.parents)
        mode = found.stat().st_mode
    except OSError as error:
        raise InvalidSpec("--tls-key", f"{key} cannot be read: {error.strerror}", _ALLOWED) from error
    if mode & 0o006 and not closed:
        what = "read" if mode & 0o004 else "changed"
        why = f"{key} can be {what} by every account of this machine, that of a job included"
        raise InvalidSpec("--tls-key", why, f"a key that is closed to others: chmod 600 {key}")


def _no_password() -> str:
    raise InvalidSpec("--tls-key", "the key has a password, which the service cannot type", _ALLOWED)


def _names(host: str) -> list[str]:
    """What it may be called. Clients that know the fingerprint do not look; browsers do."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn(), host]
    return [name for name in dict.fromkeys(names) if name and name not in ("0.0.0.0", "::") and len(name) < 64]


def _make(folder: Path, names: list[str]) -> None:
    """A self-signed certificate, whole or not at all; another process may make one at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
    fresh = Path(tempfile.mkdtemp(prefix=".tls-", dir=folder.parent))  # 0700
    try:
        begin = datetime.now(UTC) - timedelta(days=1)  # clocks differ
        cert, key = self_signed(names, begin, begin + _LASTS)
        for name, content in ((_CERT, cert), (_KEY, key)):
            with open(os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
        fresh.rename(folder)
    except OSError:
        if not folder.exists():  # else the other one was faster
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def self_signed(names: list[str], begin: datetime, end: datetime) -> tuple[bytes, bytes]:
    """A certificate and its key, in PEM."""
    # Heavy, and needed once in the life of a data folder.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Schedulearn")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([_san(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), secret


def _san(name: str) -> "GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode())
