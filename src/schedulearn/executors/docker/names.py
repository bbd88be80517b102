"""How containers of one service are called and labelled, so that it finds its own and touches no other's."""

from collections.abc import Mapping

from schedulearn.core.domain.ids import WorkerId

INSTANCE = "schedulearn.instance"  # which service it belongs to
WORKER = "schedulearn.worker"
SETUP = "schedulearn.setup"  # the key of the image that the container prepares, and of that image
LOOK = "schedulearn.look"  # the worker for which paths of the server are looked at
NETWORK = "schedulearn.network"  # whose network it is: an attempt's, or that of a setup
_PARTS = {"schedulearn.job": 0, "schedulearn.attempt": 1, "schedulearn.rank": 2}


def container_name(instance: str, worker: WorkerId) -> str:
    """Two containers of one name cannot be: this is what makes a start idempotent."""
    return f"schedulearn-{instance}-{worker}"


def setup_name(instance: str, key: str) -> str:
    return f"schedulearn-{instance}-setup-{key}"


def look_name(instance: str, who: str) -> str:
    return f"schedulearn-{instance}-look-{who}"


def network_name(instance: str, whose: str) -> str:
    return f"schedulearn-{instance}-net-{whose}"


def worker_labels(instance: str, worker: WorkerId) -> dict[str, str]:
    parts = {label: str(worker[index]) for label, index in _PARTS.items()}
    return {INSTANCE: instance, WORKER: str(worker), **parts}


def helper_labels(instance: str, kind: str, whose: str) -> dict[str, str]:
    """Of a container that is no worker's, whatever its image says: it inherits the labels of that, too.

    `kind`: SETUP or LOOK.
    """
    return {WORKER: "", **dict.fromkeys(_PARTS, ""), SETUP: "", LOOK: "", INSTANCE: instance, kind: whose}


def worker_of(labels: Mapping[str, str]) -> WorkerId | None:
    """None: it is not a worker's container."""
    try:
        return WorkerId.parse(labels[WORKER])
    except (KeyError, ValueError):
        return None
