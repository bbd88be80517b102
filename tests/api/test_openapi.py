"""The published description of the API is whole."""

from typing import Any

V1 = "/api/v1"


def test_the_description_is_published(ann: Any) -> None:
    schema = ann.get(f"{V1}/openapi.json").json()
    assert schema["openapi"].startswith("3.")
    assert f"{V1}/jobs" in schema["paths"]
    assert all(path.startswith((V1, "/metrics")) for path in schema["paths"])


def test_every_route_has_a_tag(world: Any) -> None:
    for path, methods in world.app.openapi()["paths"].items():
        for method, operation in methods.items():
            assert operation["tags"], (method, path)
