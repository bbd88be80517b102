"""What runs when, and beside what: markers that follow from what a test asks for, and the order of the files."""

import pytest

# A fixture, or the folder of a test, and the marker that follows from it.
FIXTURES = {"daemons": "docker", "browser": "browser", "site": "slow"}
FOLDERS = {"e2e": "slow", "faults": "slow", "live": "slow"}
LONG = ("docker", "slow", "browser")


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of one file stay in one process; those of long tests begin first, so that all end together."""
    long: dict[str, int] = {}
    for item in items:
        asked = [marker for fixture, marker in FIXTURES.items() if fixture in getattr(item, "fixturenames", ())]
        for name in [*asked, *filter(None, [FOLDERS.get(item.path.parent.name)])]:
            item.add_marker(name)
        item.add_marker(pytest.mark.xdist_group(_file(item)))
        long[_file(item)] = long.get(_file(item), 0) + any(map(item.get_closest_marker, LONG))
    items.sort(key=lambda item: -long[_file(item)])


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
