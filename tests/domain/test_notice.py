"""Addresses for notices, and the rules about them."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.notice import Address, Cover, check_rule, cover, parse_address
from schedulearn.core.domain.states import JobState


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ann@example.org", Address("mailto:ann@example.org")),
        ("mailto:ann@example.org", Address("mailto:ann@example.org")),
        ("failed:ann@example.org", Address("mailto:ann@example.org", "failed")),
        (" succeeded:https://h.example/x?y=1 ", Address("https://h.example/x?y=1", "succeeded")),
        ("http://[::1]:8080/x", Address("http://[::1]:8080/x")),
    ],
)
def test_forms(written: str, meant: Address) -> None:
    assert parse_address(written) == meant
    assert parse_address(str(meant)) == meant


@pytest.mark.parametrize(
    "written",
    [
        "", "ann", "-oX@example.org", "ann@", "ann@exa mple.org", "ann@example.org\nBcc: bob@example.org", "a@b,c@d",
        "ftp://h/x", "file:///etc/passwd", "http://", "https:///x", "http://ann:pw@h/x", "http://h:0/x", "http://h:x/",
        "http://h/a b", "http://h/\r\nX: 1", "http://h\\@evil/", "http://h/a/../b", "http://h/a/%2e%2e/b", "http://h/x#y",
        "http://h/a/..%2fb", "http://h/a/%2F%2e./b", "http://h/a/..%5Cb", "http://h/a/..;/b", "http://h/a/..%3Bx/b",
        "https://exämple.org/", "cancelled:ann@example.org", "https://h/" + "x" * 600,
    ],
)  # fmt: skip
def test_what_is_no_address(written: str) -> None:
    with pytest.raises(InvalidSpec) as error:
        parse_address(written)
    assert error.value.field == "notify"
    assert error.value.allowed


def test_which_ends_it_tells_of() -> None:
    assert all(parse_address("a@b").wants(state) for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED))
    only = parse_address("failed:a@b")
    assert [s for s in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED) if only.wants(s)] == [JobState.FAILED]


@pytest.mark.parametrize(
    ("rule", "target", "covered"),
    [
        ("@example.org", "ann@example.org", Cover.YES),
        ("@Example.org", "ann@EXAMPLE.ORG", Cover.YES),
        ("@example.org", "ann@sub.example.org", Cover.NO),
        ("@example.org", "ann@badexample.org", Cover.NO),
        ("@example.org", "https://example.org/", Cover.NO),
        ("https://h.example", "https://h.example/any/where", Cover.YES),
        ("https://h.example", "https://H.example:443/", Cover.YES),
        ("https://h.example", "http://h.example/", Cover.NO),
        ("https://h.example", "https://h.example:8443/", Cover.NO),
        ("https://h.example", "https://h.example.evil.org/", Cover.NO),
        ("https://h.example/a/b", "https://h.example/a/b", Cover.YES),
        ("https://h.example/a/b", "https://h.example/a/b/c?d=1", Cover.YES),
        ("https://h.example/a/b", "https://h.example/a/bc", Cover.NO),
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000/x", Cover.YES),
        ("http://127.0.0.1:9000", "http://127.0.0.1:9001/x", Cover.NO),
        ("public", "https://anywhere.example/x", Cover.IF_PUBLIC),
        ("public", "http://anywhere.example/x", Cover.NO),
        ("public", "ann@example.org", Cover.NO),
    ],
)
def test_what_a_rule_covers(rule: str, target: str, covered: Cover) -> None:
    assert check_rule(rule, "--allow-notify") == rule
    assert cover(parse_address(target), [rule]) is covered
    assert cover(parse_address(target), []) is Cover.NO
    assert cover(parse_address(target), ["https://other.example", rule]) is covered


@pytest.mark.parametrize(
    "rule", ["", "@", "example.org", "ann@example.org", "*", "https://", "https://h/?q=1", "ftp://h"]
)
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(InvalidSpec, match="--allow-notify"):
        check_rule(rule, "--allow-notify")


pieces = st.text(st.sampled_from("ab.%2e/\\@:#?-[]é \n"), max_size=12)


@given(pieces, pieces)
def test_no_trick_with_letters_leaves_the_server_and_the_path_that_are_allowed(host: str, path: str) -> None:
    """Whatever is put behind the allowed beginning: what is covered is there, also when dots are resolved."""
    try:
        address = parse_address(f"https://h.example{host}/a/{path}")
    except InvalidSpec:
        return
    if cover(address, ["https://h.example/a"]) is Cover.YES:
        parts = urlsplit(address.target)
        assert (parts.hostname, parts.port or 443) == ("h.example", 443)
        assert parts.path.startswith("/a")
        assert not {".", ".."} & set(parts.path.lower().replace("%2e", ".").split("/"))
