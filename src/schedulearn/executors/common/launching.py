"""What a worker really runs: its job's command as it is, under torchrun, or under Horovod.

Horovod starts all processes of a job itself, in worker 0. The other workers are placeholders: they hold their lease,
and end when they no longer belong to the group.
"""

import re
import shlex
from collections.abc import Callable
from pathlib import PurePosixPath

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import Launcher
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.control import content

Command = str | tuple[str, ...]  # a text is run by the shell, a list as it is

_AGENT = "torch.distributed.run"  # torchrun, for a certain interpreter
_NAMES_TORCHRUN = re.compile(r"(^|[\s/])torchrun(\s|$)|torch\.distributed\.(run|launch)(\s|$)")
_NOT_SIMPLE = re.compile(r"[;&|\n`()]")  # more than one command: each process has to run all of it
_VARIABLES = r"(?P<variables>(?:\w+=\S*\s+)*)"
_PYTHON_TEXT = re.compile(_VARIABLES + r"(?P<python>\S*python[\d.]*)\s+(?:-u\s+)*(?P<rest>(?:-m\s+)?[^-\s].*)")
_SCRIPT_TEXT = re.compile(_VARIABLES + r"(?P<rest>\S+\.py(?:\s.*)?)")
_PYTHON = re.compile(r"python[\d.]*")
_MOST_PROCESSES = 1024  # of a Horovod job, as far as Horovod is concerned

# Asked by Horovod every second. A control file that is being written says nothing: Horovod then asks again.
HOSTS = """#!/bin/sh
size=$(sed -n 's/.*"world_size": *\\([0-9][0-9]*\\).*/\\1/p' "$SCHEDULEARN_CONTROL")
[ -n "$size" ] && echo "localhost:$size"
"""

# Needs no Python: it runs in any image. Ends with 0 on SIGTERM, when worker 0 has ended (the file $1, where it can be
# seen), or when its own rank is not in `members`; a control file without `members`, or half of one, says nothing.
_PLACEHOLDER = """exec 2>/dev/null
trap 'exit 0' TERM
rank=${SCHEDULEARN_WORKER##*.}
while [ ! -e "$1" ]; do
    members=$(sed -n 's/.*"members": *\\[\\([^]]*\\)\\].*/ \\1,/p' "$SCHEDULEARN_CONTROL")
    case "$members" in ""|*" $rank,"*) ;; *) exit 0 ;; esac
    sleep 0.5 &
    wait $!
done
"""


def launched(launch: Launch, hosts: str, first_end: str = "/nonexistent") -> Command:
    """The job's command under its launcher.

    `hosts` is where this worker finds the discovery script, `first_end` the file that is there once worker 0 has ended.
    """
    if launch.spec.launcher is Launcher.TORCHRUN:
        return _under_torchrun(launch.spec.command)
    if launch.spec.launcher is Launcher.HOROVOD:
        return _under_horovod(launch, hosts, first_end)
    return launch.spec.command


def needs_hosts(launch: Launch) -> bool:
    """Whether the discovery script has to be there: in worker 0 of a Horovod job whose size may change."""
    workers = launch.spec.workers
    return carries_group(launch) and workers.min < workers.max


def carries_group(launch: Launch) -> bool:
    """Whether the processes of all workers run in this one, so that it needs the limits of all."""
    return launch.spec.launcher is Launcher.HOROVOD and launch.worker.rank == 0


def workers_in(launch: Launch) -> int:
    """For how many workers this one's limits must do at the start."""
    return launch.world_size if carries_group(launch) else 1


def most_in(launch: Launch) -> int:
    """The same, for limits that cannot be changed later."""
    return launch.spec.workers.max if carries_group(launch) else 1


def workers_now_in(carries: bool, control: bytes) -> int:
    """The same while it runs, by what its control file says. `carries`: see `carries_group`."""
    try:
        return max(1, int(content(control)["world_size"])) if carries else 1
    except (ValueError, KeyError, TypeError, OverflowError):
        return 1


def follow_group(control: bytes, present: Limits, set_limits: Callable[[Limits], None]) -> None:
    """The limits of a worker that carries its group follow its size; `control` has those of one worker.

    `present`: what each of the group would have with the limits that are in force now. Memory is not taken away: it is
    in use. Doing it again changes nothing.
    """
    told = content(control)
    cpus, memory = told.get("cpus"), told.get("memory")
    if cpus is not None:
        set_limits(Limits(cpus=cpus))
    if memory is not None and present.memory is not None and present.memory < memory:
        set_limits(Limits(memory=memory))


# --- torchrun


def _under_torchrun(command: Command) -> Command:
    """A command that names torchrun itself is left alone."""
    return _text_under_torchrun(command.strip()) if isinstance(command, str) else _list_under_torchrun(command)


def _text_under_torchrun(text: str) -> str:
    if _NAMES_TORCHRUN.search(text):
        return text
    if not _NOT_SIMPLE.search(text):
        if found := _PYTHON_TEXT.fullmatch(text):
            return f"{found['variables']}{found['python']} -m {_AGENT} {found['rest']}"
        if found := _SCRIPT_TEXT.fullmatch(text):
            return f"{found['variables']}torchrun {found['rest']}"
    return f"torchrun --no-python /bin/sh -c {shlex.quote(text)}"


def _list_under_torchrun(words: tuple[str, ...]) -> tuple[str, ...]:
    program, *rest = words
    if PurePosixPath(program).name == "torchrun" or _AGENT in rest[:3]:
        return words
    if _PYTHON.fullmatch(PurePosixPath(program).name):
        while rest and rest[0] == "-u":  # torchrun does that anyway
            rest = rest[1:]
        if rest and (rest[0] == "-m" or not rest[0].startswith("-")):
            return (program, "-m", _AGENT, *rest)
    if program.endswith(".py"):
        return ("torchrun", *words)
    return ("torchrun", "--no-python", *words)


# --- Horovod


def _under_horovod(launch: Launch, hosts: str, first_end: str) -> tuple[str, ...]:
    if not launch.together:
        raise ExecutorError(
            "the workers of a job with launcher: horovod must be on one node, and these are on several: ask for fewer"
            " or smaller ones, or use a placement that keeps them together (pack)"
        )
    if launch.worker.rank:
        return ("/bin/sh", "-c", _PLACEHOLDER, "placeholder", first_end)
    command, workers, size = launch.spec.command, launch.spec.workers, str(launch.world_size)
    words = ("/bin/sh", "-c", command) if isinstance(command, str) else command
    begin = ("horovodrun", "--gloo", "--network-interfaces", "lo", "-np", size)  # unless told, it waits for a 2nd host
    if workers.min == workers.max:
        return (*begin, "-H", f"localhost:{size}", *words)
    # How many there are is told by the script alone: the range may be changed while it runs.
    bounds = ("--min-np", "1", "--max-np", str(_MOST_PROCESSES))
    return (*begin, *bounds, "--host-discovery-script", f"sh {shlex.quote(hosts)}", *words)
