"""Images on one engine: found, or fetched from a registry."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from schedulearn.core.domain.errors import ExecutorError, InvalidSpec
from schedulearn.core.domain.image import check_image
from schedulearn.executors.docker.calls import Calls, NotThere, Refused
from schedulearn.executors.docker.output import Output


class Images:
    """Of one engine."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._network: str | None = None
        self._info: dict[str, Any] | None = None

    def ready(self, name: str, output: Output, check: Callable[[], None]) -> dict[str, Any]:
        """What the engine says of an image, fetched if need be; ExecutorError if it cannot be had.

        `check` is asked again and again meanwhile, and raises an error once it is not wanted any more.
        """
        return self.find(name) or self._fetched(name, output, check)

    def find(self, name: str) -> dict[str, Any] | None:
        _check(name)
        try:
            with self._calls.api() as api:
                told: dict[str, Any] = api.inspect_image(name)
                return told
        except NotThere:
            return None

    def usual_network(self) -> str:
        """`bridge`, or `host` where the engine has no bridge; asked once."""
        if self._network is None:
            with self._calls.api() as api:
                self._network = network_of(api)
        return self._network

    def cores(self) -> float:
        """How many the engine's machine has."""
        return float(self._told()["NCPU"])

    def memory(self) -> int:
        """Bytes that the engine's machine has."""
        return int(self._told()["MemTotal"])

    def data_root(self) -> str:
        """Where the engine keeps images and containers."""
        return str(self._told().get("DockerRootDir") or "")

    def _told(self) -> dict[str, Any]:
        """What the engine says of its machine; asked once."""
        if self._info is None:
            with self._calls.api() as api:
                self._info = dict(api.info())
        return self._info

    def _fetched(self, name: str, output: Output, check: Callable[[], None]) -> dict[str, Any]:
        output.note(f"fetching the image {name}")
        try:
            with self._calls.api() as api:
                lines = api.pull(name, tag=None if _has_tag(name) else "latest", stream=True, decode=True)
            problem = next((str(line["error"]) for line in self._lines(lines, check) if "error" in line), "")
        except Refused as refusal:
            problem = str(refusal)
        found = self.find(name)
        if found is None:
            raise ExecutorError(f"this server does not have the image {name}, and it cannot be fetched: {problem}")
        return found

    def _lines(self, lines: Iterable[Any], check: Callable[[], None]) -> Iterator[Any]:
        for line in self._calls.stream(lines):
            check()
            yield line


def _check(name: str) -> None:
    """Whatever way it came: in the address of a call, what is no name would lead elsewhere."""
    try:
        check_image(name)
    except InvalidSpec as error:
        raise ExecutorError(error.problem) from error


def variable_of(image: dict[str, Any], name: str) -> str:
    """What the image itself says of an environment variable."""
    variables = (image.get("Config") or {}).get("Env") or []
    return next((text.removeprefix(f"{name}=") for text in variables if text.startswith(f"{name}=")), "")


def network_of(api: Any) -> str:
    return "bridge" if any(network.get("Name") == "bridge" for network in api.networks()) else "host"


def _has_tag(name: str) -> bool:
    return ":" in name.rpartition("/")[2] or "@" in name
