"""An e-mail, handed to the administrator's command on its standard input."""

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any

from schedulearn.service.notify.content import Undelivered

_LONGEST_SUBJECT = 150


def send(command: str, to: str, content: dict[str, Any], at: float, timeout: float) -> None:
    """Run the command once; Undelivered unless it ends with 0 in time. No shell has a part in it."""
    try:
        process = subprocess.Popen(
            shlex.split(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise Undelivered(f"the mail command cannot be run: {error}") from error
    try:
        _, said = process.communicate(message(to, content, at), timeout)
    except subprocess.TimeoutExpired as error:
        raise Undelivered(f"the mail command did not end within {timeout:g} s") from error
    finally:
        _end(process)
    if process.returncode != 0:
        lines = said.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        raise Undelivered(f"the mail command ended with {process.returncode}" + (f": {last[:200]}" if last else ""))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Nothing that it started is left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stderr):
        if stream:
            with suppress(OSError):
                stream.close()


def message(to: str, content: dict[str, Any], at: float) -> bytes:
    """As RFC 5322 wants it, for `sendmail -t` and its like."""
    made = EmailMessage(policy=SMTP.clone(linesep="\n"))
    made["To"] = to
    made["Subject"] = _subject(content)
    made["Date"] = format_datetime(datetime.fromtimestamp(at, UTC))
    made["Message-ID"] = f"<{content['id']}@schedulearn>"
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(_text(content))
    return made.as_bytes()


def _subject(content: dict[str, Any]) -> str:
    data = content["data"]
    if "job" not in data:
        return "Schedulearn: a test"
    did = {"succeeded": "has succeeded", "failed": "has failed"}.get(data["state"], "was cancelled")
    subject = f"Schedulearn: job {data['job']} ({data['name']}) {did}"
    return "".join(c if c.isprintable() else " " for c in subject)[:_LONGEST_SUBJECT]


def _text(content: dict[str, Any]) -> str:
    data = content["data"]
    lines = [f"{content['text'][:1].upper()}{content['text'][1:]}."]
    if "job" in data:
        facts = {name: data[name] for name in ("submitted_at", "started_at", "finished_at", "attempts")}
        progress = data["progress"]
        if progress:
            facts[progress["metric"]] = f"{progress['value']} at step {progress['step']}"
        width = max(len(name) for name in facts)
        lines += ["", *(f"{name.replace('_at', ''):<{width}}  {v}" for name, v in facts.items() if v is not None)]
        lines += ["", f"schedulearn describe {data['job']}", f"schedulearn logs {data['job']}"]
    return "\n".join(lines) + "\n"
