"""Servers that speak TLS and keep what they were told, and certificates of any kind."""

import base64
import hashlib
import socket
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from schedulearn.pinned import address_of, with_pin
from schedulearn.service.upkeep.certificate import Certificate, fingerprint, self_signed

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{"status": "ok"}'


def dated(folder: Path, first: int, last: int) -> Certificate:
    """A certificate for this machine that is good from so many days from now to so many days from now."""
    now = datetime.now(UTC)
    folder.mkdir()
    cert, key = self_signed(["127.0.0.1"], now + timedelta(days=first), now + timedelta(days=last))
    for name, content in (("cert.pem", cert), ("key.pem", key)):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    return Certificate(folder / "cert.pem", folder / "key.pem", fingerprint(folder / "cert.pem"))


def key_hash(cert: Path) -> str:
    """Of the key in a certificate, as Chromium wants to have it."""
    found = x509.load_pem_x509_certificate(cert.read_bytes()).public_key()
    content = found.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


class Listener:
    """Answers every request over TLS in the same way, and keeps what it was told."""

    def __init__(self, shown: Certificate, host: str = "127.0.0.1") -> None:
        self.heard: list[bytes] = []
        self._context, self._pin = shown.context(), shown.pin
        self._listening = socket.create_server((host, 0))
        self.port = int(self._listening.getsockname()[1])
        self.url = f"https://{'127.0.0.1' if host == '0.0.0.0' else host}:{self.port}"
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

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()
