"""Every error that the client raises on purpose. MaybeSubmitted says with which key to ask again."""

from collections.abc import Mapping, Sequence
from typing import Any


class ClientError(Exception):
    """The root of all errors that the client raises on purpose."""


class ServiceUnreachable(ClientError):
    """Nothing answers at the address, or the connection broke before the answer was complete."""


class NotTrusted(ServiceUnreachable):
    """What answers has not the certificate of the address, or one that no authority vouches for. No token was sent."""


class NoAnswer(ServiceUnreachable):
    """Something is there, or was: but its answer did not come in time or not whole, or is that it cannot at present.

    What was asked for may have been done.
    """


class MaybeSubmitted(NoAnswer):
    """A job was to be submitted, and may have been made. The same once more with this `key` makes no second one."""

    def __init__(self, problem: str, key: str) -> None:
        self.key = key
        super().__init__(f"{problem}; the job may have been made")


class ApiError(ClientError):
    """The service refused a request (RFC 9457 problem details).

    `errors` lists every wrong field, each as {"field", "problem", "allowed"}; `field` and `allowed` are
    those of the first.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        field: str | None = None,
        allowed: str | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.status, self.title, self.detail = status, title, detail
        self.field, self.allowed, self.errors = field, allowed, list(errors)
        super().__init__(self._text())

    def _text(self) -> str:
        text = self.detail or self.title or f"the service answered {self.status}"
        if self.field and self.field not in text:
            text = f"{self.field}: {text}"
        if self.allowed and self.allowed not in text:
            text = f"{text} (allowed: {self.allowed})"
        return text


class NoSuchJob(ApiError):
    """There is no job with this id."""


class WaitTimeout(ClientError):
    """The job did not end in the given time. It goes on."""


class MissingVariable(ClientError):
    """The spec takes variables from the caller's environment, and they are not there."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        super().__init__(f"env: {', '.join(names)} must come from your environment, but is not set there")


class SnapshotError(ClientError):
    """The working folder cannot be packed."""


class SnapshotTooLarge(SnapshotError):
    """The working folder holds more than the limit."""


class LinkLeavesFolder(SnapshotError):
    """Symbolic links in the working folder point out of it."""

    def __init__(self, links: Sequence[tuple[str, str]]) -> None:
        self.links = list(links)  # (path in the folder, target)
        named = ", ".join(f"{path} -> {target}" for path, target in links[:5])
        more = f" and {len(links) - 5} more" if len(links) > 5 else ""
        super().__init__(
            f"symbolic links point out of the working folder: {named}{more}; "
            "put them into .gitignore, or replace them by what they point to"
        )
