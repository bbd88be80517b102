"""Names of container images, by the grammar that engines and registries share: `registry:port/path:tag@digest`.

A name gets into addresses of an engine's API. One that is no name could lead elsewhere there.
"""

import re

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.units import short

MAX_LENGTH = 255  # characters, as of the name alone elsewhere
ALLOWED = "the name of an image, such as python:3.12 or registry.example.org:5000/team/image@sha256:…"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
_PART = "[a-z0-9]+(?:(?:[.]|_{1,2}|-+)[a-z0-9]+)*"
_TAG = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[+._-][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}"
PATTERN = rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::{_TAG})?(?:@{_DIGEST})?"
_REFERENCE = re.compile(PATTERN)


def check_image(name: str, field: str = "image") -> str:
    """The name itself; InvalidSpec if it is none."""
    if len(name) > MAX_LENGTH:
        raise InvalidSpec(field, "the name of the image is too long", f"at most {MAX_LENGTH} characters")
    if not _REFERENCE.fullmatch(name):
        raise InvalidSpec(field, f"{short(name)} is not the name of an image", ALLOWED)
    return name
