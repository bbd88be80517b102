"""What runs when, and beside what: markers that follow from what a test asks for, and the order of the files."""

import json
from pathlib import Path

import pytest

SECONDS = Path(__file__).parents[1] / "data" / "seconds.json"
# A fixture, or the folder of a test, and the marker that follows from it.
FIXTURES = {"daemons": "docker", "browser": "browser"}
FOLDERS = {"e2e": "slow"}


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of one file stay in one process; what takes long begins first, so that all processes end together."""
    seconds: dict[str, int] = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    for item in items:
        asked = [marker for fixture, marker in FIXTURES.items() if fixture in getattr(item, "fixturenames", ())]
        for name in [*asked, *filter(None, [FOLDERS.get(item.path.parent.name)])]:
            item.add_marker(name)
        item.add_marker(pytest.mark.xdist_group(_file(item)))
    items.sort(key=lambda item: -seconds.get(_file(item), 0))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
