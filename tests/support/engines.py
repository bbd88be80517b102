"""Looking at engines as the probe does, and certificates for those that speak TLS."""

import subprocess
import time
from pathlib import Path
from typing import Any

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Node
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.probe import Report, probe


class Clock:
    def __init__(self, ahead: float = 0.0) -> None:
        self._ahead = ahead

    def now(self) -> float:
        return time.time() + self._ahead


def look_at(
    address: str, image: str = "", clock: Clock | None = None, certificates: Path | None = None, **more: Any
) -> Report:
    engine = Engine(address, certificates)
    wanted = Node(NodeName("gpu2"), "docker", address=address, default_image=image, labels=(("room", "b12"),))
    try:
        return probe(engine, wanted, clock or Clock(), **more)
    finally:
        engine.close()


def problem(report: Report, field: str = "address") -> str:
    assert report.node is None
    [(named, words)] = report.problems
    assert named == field
    return words


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)


def certificates(folder: Path, name: str = "IP:127.0.0.1") -> Path:
    """A CA, a server's certificate for this name, and ours: ca.pem, server.pem, cert.pem with their keys."""
    folder.mkdir(exist_ok=True)
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    # Explicit extensions: newer Pythons check that a CA says it is one.
    ca = ("-addext", "keyUsage=critical,keyCertSign")
    openssl(folder, "req", "-x509", *curve, "-days", "2", "-subj", "/CN=lab", *ca, "-keyout", "ca-key.pem",
            "-out", "ca.pem")  # fmt: skip
    for file, key, use in (("server.pem", "server-key.pem", "serverAuth"), ("cert.pem", "key.pem", "clientAuth")):
        openssl(folder, "req", *curve, "-subj", f"/CN={use}", "-keyout", key, "-out", "request.pem")
        (folder / "ext").write_text(
            f"subjectAltName={name}\nextendedKeyUsage={use}\nauthorityKeyIdentifier=keyid\n"
            "subjectKeyIdentifier=hash\nkeyUsage=digitalSignature\n"
        )
        openssl(folder, "x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
                "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", file)  # fmt: skip
    return folder
