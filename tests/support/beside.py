"""What tests of commands beside workers share."""

from typing import Any

from schedulearn.executors.common.exec import STDERR, STDOUT

# Its first line names processes that are killed in different ways: one that left the session, one of it, itself.
TREE = "setsid sleep 1000 & a=$!; sleep 1000 & echo $a $! $$; wait"


def outcome(command: Any) -> tuple[bytes, bytes, int]:
    """What it wrote, told apart, and its exit code."""
    written = {STDOUT: b"", STDERR: b""}
    for stream, data in command:
        written[stream] += data
    return written[STDOUT], written[STDERR], command.exit_code
