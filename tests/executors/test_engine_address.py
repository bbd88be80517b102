"""Addresses of engines: what is understood, what is refused, and in which words."""

import pytest

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.executors.docker.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address", "name"),
    [
        ("unix:///var/run/docker.sock", Address("unix", path="/var/run/docker.sock"), "docker"),
        ("unix:///srv/gpu-2.sock", Address("unix", path="/srv/gpu-2.sock"), "gpu-2"),
        ("tcp://gpu2.lab.example:2376", Address("tcp", "gpu2.lab.example", 2376), "gpu2"),
        ("tcp://10.0.0.3", Address("tcp", "10.0.0.3", 2376), "10.0.0.3"),
        ("tcp://[fe80::1]:2376", Address("tcp", "fe80::1", 2376), "fe80::1"),
        ("ssh://gpu2", Address("ssh", "gpu2", None, "", "/var/run/docker.sock"), "gpu2"),
        ("ssh://ann@gpu2:2222", Address("ssh", "gpu2", 2222, "ann", "/var/run/docker.sock"), "gpu2"),
        ("ssh://gpu2/run/user/7/docker.sock", Address("ssh", "gpu2", None, "", "/run/user/7/docker.sock"), "gpu2"),
    ],
)
def test_what_is_understood(text: str, address: Address, name: str) -> None:
    assert parse_address(text) == address
    assert address.default_name == name
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gpu2", "begins with none"),
        ("http://gpu2", "begins with none"),
        ("", "begins with none"),
        ("unix://docker.sock", "absolute path"),
        ("unix:///" + "x" * 200, "absolute path"),
        ("unix:///a b", "absolute path"),
        ("tcp://", "tcp://HOST:PORT"),
        ("tcp://gpu2:99999", "cannot be understood"),
        ("tcp://gpu2/path", "tcp://HOST:PORT"),
        ("ssh://ann:secret@gpu2", "password"),
        ("ssh://-oProxyCommand=x", "ssh://USER@HOST"),
        ("ssh://-l@gpu2", "ssh://USER@HOST"),
        ("ssh://gpu2/a:b", "socket"),
        ("ssh://gpu2?x=1", "query"),
        ("ssh://gpu2#", "fragment"),
        ("SSH://gpu2", "begins with none"),
        (" ssh://gpu2", "begins with none"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidSpec, match=why) as refused:
        parse_address(text)
    assert refused.value.field == "address"
    assert "ssh://" in refused.value.allowed
    assert "secret" not in str(refused.value), "a password is not repeated"
