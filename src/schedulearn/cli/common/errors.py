"""What went wrong, told so that the reader knows what to do next; and the exit codes."""

import sys
from enum import IntEnum

from schedulearn.cli.common.out import note, paint
from schedulearn.wire.clean import clean

EXIT_CODES = """\
Exit codes:
  0    success; for run and wait: the job succeeded
  1    the job failed or was cancelled
  2    invalid request: an option, a field, or the job's state; nothing was changed
  3    no such job (or node, user, token)
  4    the service cannot be reached, or failed
  130  interrupted with Ctrl-C; jobs keep running
exec exits with the exit code of its command."""


class Code(IntEnum):
    """The exit codes of every verb."""

    DONE = 0
    JOB_FAILED = 1
    WRONG_USE = 2
    NO_SUCH_JOB = 3
    UNREACHABLE = 4
    INTERRUPTED = 130


class Failure(Exception):
    """Ends the verb. `field` is the option or field that is wrong, `allowed` what would be right, `hint` what to do."""

    def __init__(
        self, problem: str, code: Code = Code.WRONG_USE, field: str = "", allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(problem)
        self.problem, self.code, self.field, self.allowed, self.hint = problem, code, field, allowed, hint


def show_failure(failure: Failure) -> None:
    """To stderr: what is wrong, which field, what is allowed, what to do next."""
    field = f"{failure.field}: " if failure.field and failure.field not in failure.problem else ""
    note(paint("error: ", "bold red", sys.stderr) + paint(clean(field + failure.problem), "red", sys.stderr))
    if failure.allowed and failure.allowed not in failure.problem:
        note(f"  allowed: {clean(failure.allowed)}")
    for line in failure.hint.splitlines():
        note(f"  {line}")
