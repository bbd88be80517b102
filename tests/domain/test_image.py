"""Names of images: the grammar of references, and nothing that could lead elsewhere."""

import re
import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.image import PATTERN, check_image


@pytest.mark.parametrize(
    "name",
    [
        "python",
        "python:3.12-slim",
        "pytorch/pytorch",
        "nvcr.io/nvidia/pytorch:24.01-py3",
        "localhost:5000/a",
        "Registry.Example.org:443/team/image_one/two__three/a---b:Tag_1.0",
        "[fd00::1]:5000/a/b",
        "a@sha256:" + "0" * 64,
        "a:1@sha256:" + "f" * 64,
        "sha256:" + "a" * 64,
        "0123456789ab",
        "a" * 255,
    ],
)
def test_names(name: str) -> None:
    assert check_image(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "../containers",
        "a/../../containers",
        "a/..",
        "a/.",
        ".",
        "/a",
        "a/",
        "a//b",
        "Python",
        "a b",
        "a?all=1",
        "a#b",
        "a%2f..",
        "a%2e%2e",
        "a\\b",
        "a:",
        "a:b:c",
        "a:-b",
        "a@",
        "a@sha256:xyz",
        "a@sha256:" + "0" * 31,
        "-a",
        "a_",
        "a___b",
        "http://host/a",
        "user@host/a",
        "a\n",
        "a\0",
        "ä",
        "a:" + "b" * 129,
        "a" * 256,
    ],
)
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(InvalidSpec) as failure:
        check_image(name)
    assert failure.value.field == "image"
    assert failure.value.allowed


@given(st.text(string.ascii_letters + string.digits + "./:@_-%?#[] \n", max_size=30))
def test_no_name_leaves_its_place_in_an_address(text: str) -> None:
    try:
        check_image(text)
    except InvalidSpec:
        return
    assert not {"", ".", ".."} & set(text.split("/"))
    assert quote(text, safe="/:@[]") == text


@pytest.mark.slow
@given(st.from_regex(PATTERN, fullmatch=True))
def test_the_published_pattern_is_the_rule(text: str) -> None:
    """Whoever goes by the description of the API is not refused."""
    assert re.fullmatch(PATTERN, text)
    if len(text) <= 255:
        assert check_image(text) == text
