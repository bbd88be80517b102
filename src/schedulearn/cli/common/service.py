"""The way to the service: a client, and the client's errors in words."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from schedulearn.cli.common.errors import Code, Failure, show_failure

if TYPE_CHECKING:
    from schedulearn.client import ApiError, Client

T = TypeVar("T")


def connect(timeout: float = 30.0) -> "Client":
    """A client for the service that the environment or the data folder names."""
    from schedulearn.client import Client

    return Client(timeout=timeout)


def failure_of(error: Exception) -> Failure | None:
    """An error of the client, or of reading an option, as the user is told it; None for any other."""
    from schedulearn import client
    from schedulearn.wire.drafts import Unreadable

    match error:
        case Unreadable():
            return Failure(error.problem, field=error.field, allowed=error.allowed)
        case client.NoSuchJob():
            return Failure(str(error), Code.NO_SUCH_JOB, hint="list all jobs: schedulearn ls --all")
        case client.ApiError():
            return _refused(error)
        case client.NotTrusted():
            return Failure(
                str(error),
                Code.UNREACHABLE,
                hint="the service prints its fingerprint when it starts: schedulearn up\n"
                "if it is the same: SCHEDULEARN_URL=https://HOST:PORT#sha256=FINGERPRINT",
            )
        case client.MaybeSubmitted():
            return Failure(str(error), Code.UNREACHABLE, hint=ask_again(error.key))
        case client.NoAnswer():
            return Failure(
                str(error),
                Code.UNREACHABLE,
                hint="it is running but cannot answer now: try again\nsee its log: service.log in its data folder",
            )
        case client.ServiceUnreachable():
            return Failure(
                str(error),
                Code.UNREACHABLE,
                hint="start it: schedulearn up --detach\nor set SCHEDULEARN_URL and SCHEDULEARN_TOKEN to where it is",
            )
        case client.WaitTimeout():
            return Failure(str(error), Code.JOB_FAILED)
        case client.MissingVariable():
            return Failure(str(error), field="env", hint="set it, or give a value: --env NAME=VALUE")
        case client.SnapshotError():
            hint = "exclude files with .gitignore, choose a folder with --workdir, or copy nothing with --no-workdir"
            return Failure(str(error), field="workdir", hint=hint)
        case client.ClientError():
            return Failure(str(error))
        case _:
            return None


def ask_again(key: str) -> str:
    """What to do when it is not known whether a job was made."""
    return f"repeating the command with --key {key} is safe: it submits the job only if that has not happened yet"


def _refused(error: "ApiError") -> Failure:
    field = error.field or ""
    problem = error.detail or error.title or f"the service answered {error.status}"
    named = _named(field)
    if named != field and field in problem:
        problem, named = problem.replace(field, named, 1), ""
    more = "".join(f"also {_named(str(e.get('field')))}: {e.get('problem')}\n" for e in error.errors[1:])
    return Failure(problem, _code(error.status), named, error.allowed or "", more + _advice(error.status))


def _named(field: str) -> str:
    """`resources.memory (--memory)`"""
    from schedulearn.wire.spec import option_of

    option = option_of(field)
    return f"{field} ({option})" if option else field


def _code(status: int) -> Code:
    if status == 404:
        return Code.NO_SUCH_JOB
    return Code.UNREACHABLE if status >= 500 else Code.WRONG_USE


def _advice(status: int) -> str:
    if status == 401:
        return "set SCHEDULEARN_TOKEN to a valid token; an administrator can create one: schedulearn tokens create"
    if status == 403:
        return "you can change only your own jobs; an administrator can change all"
    if status >= 500:
        return "this is an error in the service; see its log: service.log in its data folder"
    return ""


def for_each(ids: Iterable[int], act: Callable[[int], T]) -> tuple[list[T], Code]:
    """Do it for each job; one that fails is told and does not keep the others from it. The first failure's code."""
    from schedulearn.client import ClientError, ServiceUnreachable

    done: list[T] = []
    code = Code.DONE
    for job in dict.fromkeys(ids):
        try:
            done.append(act(job))
        except ServiceUnreachable:
            raise
        except ClientError as error:
            failure = failure_of(error) or Failure(str(error))
            if str(job) not in failure.problem:
                failure.problem = f"job {job}: {failure.problem}"
            show_failure(failure)
            code = code or failure.code
    return done, code
