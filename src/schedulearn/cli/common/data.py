"""The data folder as seen from outside: which process runs the service on it, and how to recognise it."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.verb import option

ROLES = ("api", "scheduler")
PAGE = "dashboard"  # the page alone: it may run beside a service, so it leaves its word in a file of its own
_WORDS = ("service.json", f"{PAGE}.json")


def default_data() -> Path:
    return Path(os.environ.get("SCHEDULEARN_DATA") or Path.home() / ".schedulearn")


Data = Annotated[
    Path | None,
    option("DIR", "The data folder. [default: $SCHEDULEARN_DATA or ~/.schedulearn]"),
]


def data_folder(given: Path | None) -> Path:
    return (given or default_data()).expanduser().absolute()


def service_processes(data: Path) -> dict[int, str]:
    """The live processes of the service on this folder: pid → what they do. API and scheduler may be two."""
    found: dict[int, str] = {}
    for service in (_read(data / name) for name in _WORDS):
        if pid := _pid(service):
            found[pid] = " and ".join(str(role) for role in service.get("roles") or ()) or "service"
    for role in ROLES:
        if (pid := _pid(_read(data / f"{role}.lock"))) and pid not in found:
            found[pid] = role
    return {pid: role for pid, role in found.items() if is_service(pid)}


def is_service(pid: int) -> bool:
    """Whether this pid is (still) a `schedulearn up`: the number may have gone to another process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return False
    return "up" in words and any("schedulearn" in word for word in words)


def write_service(data: Path, url: str, roles: list[str]) -> None:
    """Leave word of this process for `down` and for `up --detach`."""
    file = data / f"{PAGE if roles == [PAGE] else 'service'}.json"
    temporary = file.with_name(f"{file.name}.tmp")
    temporary.write_text(json.dumps({"pid": os.getpid(), "url": url, "roles": roles}), "utf-8")
    temporary.replace(file)


def forget_service(data: Path) -> None:
    """Take that word back, unless another process has left its own since."""
    for file in (data / name for name in _WORDS):
        if _pid(_read(file)) == os.getpid():
            file.unlink(missing_ok=True)


def refuse_another_page(data: Path) -> None:
    """Two pages alone on one folder would take each other's word away, and `down` would stop only one."""
    if pid := next((pid for pid, role in service_processes(data).items() if role == PAGE), 0):
        raise Failure(
            f"a page is already running on {data} (pid {pid})", hint="stop it first, or name another folder: --data"
        )


def service_url(data: Path, pid: int) -> str | None:
    """The address at which this process serves the API, or the page alone, once it has said so."""
    words = (_read(data / name) for name in _WORDS)
    return next((str(word["url"]) for word in words if _pid(word) == pid and word.get("url")), None)


def holds_role(data: Path, role: str, pid: int) -> bool:
    return _pid(_read(data / f"{role}.lock")) == pid


def _pid(content: dict[str, Any]) -> int:
    pid = content.get("pid")
    return pid if isinstance(pid, int) and pid > 0 else 0


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


@contextmanager
def server_errors() -> Iterator[None]:
    """Errors of the server's side that were foreseen, in words; any other goes through as it is."""
    from schedulearn.core.domain.errors import InvalidSpec, SchedulearnError

    try:
        yield
    except InvalidSpec as error:
        raise Failure(error.problem, field=error.field, allowed=error.allowed) from error
    except SchedulearnError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Failure(
                "this port is already in use",
                field="--port",
                allowed="an unused port; 0 takes any free one",
            ) from error
        raise Failure(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")) from error


# --- what is useful next, as commands


def next_commands(data: Path) -> dict[str, str]:
    """What is useful once the service runs."""
    elsewhere = data != data_folder(None)
    steps = {"use this folder": f"export SCHEDULEARN_DATA={data}"} if elsewhere else {}
    usual = {"run a job": "schedulearn run -- python train.py", "watch": "schedulearn top"}
    return {**steps, **usual, "stop (jobs keep running)": down_words(data)}


def down_words(data: Path) -> str:
    """What stops all that runs on this folder."""
    return "schedulearn down" + ("" if data == data_folder(None) else f" --data {data}")


def link_words(page: str) -> str:
    """What prints a link that logs in, where the page is not at the service's own address."""
    return f"schedulearn tokens link --page {page}"
