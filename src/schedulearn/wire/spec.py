"""The fields of a job's spec, one row each.

From this table are made: what the API checks and publishes (`api/body/spec.py`), the options of `run`, `submit` and
`update` (`cli/common/job_options.py`), the form of the page (`dashboard/views/form.py`) and the reference
(`docs/reference`).
What a field does is told by `JobSpec`, which has an attribute of its name.
"""

from typing import Any, Literal, NamedTuple


class Option(NamedTuple):
    """How the command line asks for it."""

    metavar: str
    help: str
    name: str = ""  # if it is not called as the field is


class Entry(NamedTuple):
    """How the page's form asks for it."""

    label: str
    hint: str = ""
    widget: str = "text"  # text, number, lines; words and ids: several in a line
    usual: str = ""  # what it is if it is left empty and the spec has no default to show


class Change(NamedTuple):
    """How `update` asks for it."""

    help: str
    removable: bool = True  # null takes it away


class Field(NamedTuple):
    path: str  # where it stands in the spec, such as resources.gpus
    kind: str  # how it is read: each reader has a function for a kind that needs one
    default: Any = None
    about: str = ""  # for the published schema and the reference
    option: Option | None = None  # None: the command line has none, or makes it itself
    entry: Entry | None = None
    choices: tuple[str, ...] = ()
    change: Change | None = None  # None: it stays as it was submitted
    private: Literal["", "hidden", "left out"] = ""  # what others see of it, who may not change the job

    @property
    def name(self) -> str:
        """As the command line and the form call it."""
        return (self.option and self.option.name) or self.path.rpartition(".")[2]


class Part(NamedTuple):
    """Fields that stand together in the spec."""

    about: str
    description: str = ""  # where the spec has it
    short: str = ""  # the field that a text alone stands for


PARTS = {
    "resources": Part("What each worker needs.", "for each worker"),
    "metric": Part("The number that tells how well the training goes.", short="name"),
}
# In the order of the options. The API has the order of `JobSpec`, the form that of `GROUPS`.
FIELDS = (
    Field("command", "command", about="a text is run by the shell, a list as it is",
          entry=Entry("Command", "run by the shell", "lines")),
    Field("name", "line", about="by default made from the command",
          option=Option("NAME", "A name to find it by."),
          entry=Entry("Name", "to find it by", usual="from the command")),
    Field("workers", "workers", 1,
          option=Option("N|N..M", "How many workers: 2, or a range 1..4."),
          entry=Entry("Workers", "2, or 1..4"),
          change=Change("How many it should have, from now on: 2, or 2..6.", removable=False)),
    Field("resources.gpus", "gpus", 0,
          option=Option("N", "GPUs for each worker."),
          entry=Entry("GPUs", "whole devices", "number")),
    Field("resources.gpu_type", "model",
          option=Option("MODEL", "Only GPUs of this model, such as A100."),
          entry=Entry("GPU model", "such as A100", usual="any")),
    Field("resources.cpus", "cpus", 1,
          option=Option("N|N..M", "Cores for each worker: 2, or 0.5..4."),
          entry=Entry("Cores", "2, or 0.5..4")),
    Field("resources.memory", "size",
          option=Option("SIZE", "Memory for each worker, such as 4GB."),
          entry=Entry("Memory", "512MB, 4GB", usual="no limit")),
    Field("resources.shm", "size",
          option=Option("SIZE", "Shared memory for each worker."),
          entry=Entry("Shared memory", "of a container: 1GB")),
    Field("priority", "priority", about="0..100, higher first; 50 by default",
          option=Option("0..100", "Higher goes first; usual is 50."),
          entry=Entry("Priority", "0..100, higher first", "number", "50"),
          change=Change("Higher goes first.", removable=False)),
    Field("deadline", "deadline",
          option=Option("TIME", "When it should be done: 6h, or a date."),
          entry=Entry("Deadline", "6h, or 2030-01-31T18:00:00Z", usual="none"),
          change=Change("6h, a date, or none.")),
    Field("time_limit", "duration", about="of running, over all attempts",
          option=Option("DURATION", "Stop it after running this long: 8h."),
          entry=Entry("Time limit", "90m, 6h", usual="none"),
          change=Change("8h, 90m, or none.")),
    Field("max_restarts", "restarts", 0,
          option=Option("N", "Try again so often if it fails."),
          entry=Entry("Restarts", "if it fails", "number")),
    Field("grace", "grace", 30.0,
          option=Option("DURATION", "Time to save and end before it is killed: 30s."),
          entry=Entry("Grace", "to save before it is killed")),
    Field("env", "env", {}, private="hidden",
          option=Option("K=V|K", "Set a variable; K alone takes your value. Repeatable."),
          entry=Entry("Environment", "NAME=VALUE, one in a line", "lines")),
    Field("depends_on", "jobs", [],
          option=Option("JOB", "Start only after this job succeeded. Repeatable."),
          entry=Entry("After jobs", "16 17", "ids", "none")),
    Field("steps", "count", about="how many there are in all, if known",
          option=Option("N", "Total number of steps, if known."),
          entry=Entry("Steps", "in all", "number", "unknown")),
    Field("batch", "batch",
          option=Option("N..M", "Let the scheduler choose the batch size: 32..512."),
          entry=Entry("Batch size", "32..512: may be chosen in this range", usual="fixed")),
    Field("metric.name", "line", "loss",
          option=Option("NAME", "The number to watch; usual is loss.", "metric"),
          entry=Entry("Metric", "the number to watch")),
    Field("metric.goal", "goal", "min", choices=("min", "max"),
          option=Option("min|max", "Whether the metric should fall or rise."),
          entry=Entry("Better is")),
    Field("metric.pattern", "pattern",
          option=Option("REGEX", "Finds the metric in the output; one group."),
          entry=Entry("Pattern", "a regular expression with one group", usual="loss: 0.31")),
    Field("target", "target",
          option=Option("[NAME=]VALUE[:stop]",
                        "The metric's value that is good enough: then others go first, or with :stop it ends."),
          entry=Entry("Target", "loss=0.05, loss=0.05:stop", usual="none"),
          change=Change("The metric's value that is good enough: loss=0.05, 0.05:stop, or none.")),
    Field("image", "image", about="container image",
          option=Option("IMAGE", "Docker image to run in."),
          entry=Entry("Image", "such as pytorch/pytorch", usual="none")),
    Field("setup", "lines", [], private="hidden",
          option=Option("LINE", "A line that prepares the image. Repeatable."),
          entry=Entry("Setup", "lines that prepare the image, or requirements.txt", "lines")),
    Field("mounts", "lines", [], private="hidden",
          option=Option("PATH", "A data folder of the host. Repeatable.", "mount"),
          entry=Entry("Mounts", "/data, or /data:/inside:rw; one in a line", "lines")),
    Field("launcher", "launcher", "command", choices=("command", "torchrun", "horovod", "elastic"),
          option=Option("KIND", "command, torchrun, horovod or elastic."),
          entry=Entry("Launcher")),
    Field("preemptible", "preemptible", "auto", choices=("auto", "true", "false"),
          option=Option("auto|true|false", "Whether others may push it back."),
          entry=Entry("May be stopped", "to let others go first")),
    Field("notify", "addresses", [], "whom to tell when it is over", private="hidden",
          option=Option("ADDRESS", "Tell it when it is over: https://… or an e-mail address. Repeatable."),
          entry=Entry("Notify", "e-mail and web addresses, a space between", "words", "no one")),
    Field("workdir", "folder", ".", "where it was submitted from; the snapshot is what runs", private="hidden",
          option=Option("DIR", "The folder that is copied and run in; usual is the present one.")),
    Field("snapshot", "sha256", about="SHA-256 of the uploaded archive of the working folder", private="left out"),
)  # fmt: skip
# What may be changed later; a limit of cores is no part of the spec.
CHANGES = (
    *(field for field in FIELDS if field.change),
    Field("cpus_limit", "cores", option=Option("CORES", ""),
          change=Change("Cores for each worker, from now on: 0.5, or none.")),
)  # fmt: skip
# What stands where in the form; an entry that is not named here comes last.
GROUPS = {
    "What is run": ("command", "name", "launcher", "env"),
    "What each worker needs": ("workers", "cpus", "memory", "gpus", "gpu_type", "shm"),
    "When it runs": (
        "priority", "time_limit", "deadline", "depends_on", "max_restarts", "grace", "preemptible", "notify",
    ),
    "How its progress is followed": ("metric", "goal", "target", "steps", "batch", "pattern"),
    "In a container": ("image", "setup", "mount"),
}  # fmt: skip


def option_of(path: str) -> str:
    """`--memory` for resources.memory, to name it in errors; empty for a field that has none."""
    found = next((field for field in (*FIELDS, *CHANGES) if field.path == path and field.option), None)
    return "--" + found.name.replace("_", "-") if found else ""
