"""Starting the service in the background, and making sure that it really runs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import typer

from schedulearn.cli.common.data import PAGE, down_words, holds_role, link_words, next_commands, service_url
from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.out import next_steps, say
from schedulearn.pinned import address_of, without_pin

_PATIENCE = 60.0  # seconds to be healthy


def start_detached(data: Path, options: list[str], only: str | None) -> int:
    """Run `up` again as a child in its own session; return when it is healthy, or say why it is not."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = data / f"{PAGE if only == PAGE else 'service'}.log"
    # Its first lines hold the administrator's token: no other user may read it.
    with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as output:
        output.seek(0, os.SEEK_END)
        begin = output.tell()
        child = subprocess.Popen(
            [sys.executable, "-m", "schedulearn.cli.main", "up", *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    url = _wait_until_ready(child, data, only, log, begin)
    child.returncode = 0  # it goes on without us: Popen must not warn that it was never waited for
    if only == PAGE:
        _say_page(child.pid, url, data, log)
    else:
        _say(child.pid, url, data, log, begin)
    return Code.DONE


def _wait_until_ready(child: subprocess.Popen[bytes], data: Path, only: str | None, log: Path, begin: int) -> str:
    """Its address; empty for a scheduler alone, which has none."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if child.poll() is not None:
            raise Failure(f"the service exited at once (exit code {child.returncode})", hint=_last_words(log, begin))
        if only == "scheduler" and holds_role(data, "scheduler", child.pid):
            return ""
        url = service_url(data, child.pid)
        if url and (_answers(url) if only == PAGE else _is_healthy(url)):
            return url
        time.sleep(0.05)
    child.terminate()
    child.wait()
    raise Failure(
        f"the service was not healthy after {_PATIENCE:g} seconds", Code.UNREACHABLE, hint=_last_words(log, begin)
    )


def _is_healthy(url: str) -> bool:
    from schedulearn.client import Client, ClientError

    try:
        with Client(url, token="", timeout=5.0) as client:
            return client.health()["status"] == "ok"
    except ClientError:
        return False


def _answers(url: str) -> bool:
    """Whether the page can be opened; it may say that its service is away, which is an answer, too."""
    connection = address_of(url).connect(30.0)
    try:
        connection.request("GET", "/login")
        return bool(connection.getresponse().status)
    except OSError:
        return False
    finally:
        connection.close()


def _last_words(log: Path, begin: int) -> str:
    """What it wrote since it was started: the end of it."""
    lines = _since(log, begin).strip().splitlines()[-15:]
    return "\n".join([*lines, f"full log: {log}"])


def _since(log: Path, begin: int) -> str:
    with open(log, "rb") as file:
        file.seek(begin)
        return file.read().decode("utf-8", "replace")


def _say_page(pid: int, url: str, data: Path, log: Path) -> None:
    page = without_pin(url)
    say(f"The page runs at {page} (pid {pid}).", "green")
    next_steps({"login link": link_words(page), "log": f"tail -f {log}", "stop it": down_words(data)})


def _say(pid: int, url: str, data: Path, log: Path, begin: int) -> None:
    say(f"The service runs at {without_pin(url)} (pid {pid})." if url else f"The scheduler runs (pid {pid}).", "green")
    for line in _since(log, begin).splitlines():
        if line.startswith(("fingerprint:", "token:", "page:", "Warning:")):
            say(line)
    next_steps({"log": f"tail -f {log}", **next_commands(data)})


def detached_arguments(ctx: typer.Context) -> list[str]:
    """The same command line, for a process in the background. What was not given is not written."""
    words: list[str] = []
    for param in ctx.command.params:
        name = str(param.name)
        source = ctx.get_parameter_source(name)
        if name == "detach" or source is None or source.name != "COMMANDLINE":
            continue
        value = ctx.params[name]
        if isinstance(value, bool):
            words.append(param.opts[0] if value else param.secondary_opts[0])
        else:
            words += [
                word for one in (value if isinstance(value, list) else [value]) for word in (param.opts[0], str(one))
            ]
    return words
