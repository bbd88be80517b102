"""Jobs as the first Schedulearn took them: answered with the same job in the present form."""

import json
from typing import Any

from pydantic_core import PydanticCustomError

from schedulearn.api.body.fields import invalid

PATH = "/api/v1/post"  # where they were sent to
_FIELDS = ("jobname", "jobtype", "requiredgpus")  # that only they had; image and command are as they were
_LONGEST = 500  # characters of a value that is shown again
_MOST_WORKERS = 10_000


def first_form(data: Any) -> PydanticCustomError | None:
    """What to answer, if it is such a job."""
    if not isinstance(data, dict) or not (old := [name for name in _FIELDS if name in data]):
        return None
    return invalid(
        "this is the form of the first Schedulearn; the same job is written anew here", present(data), old[0]
    )


def present(data: dict[str, Any]) -> str:
    """The same job now. Its workers stayed on one server and found each other by Horovod."""
    command = _text(data, "command", "python train.py")
    job: dict[str, Any] = {"name": _text(data, "jobname", "train")}
    if image := _text(data, "image", ""):
        job["image"] = image
    job["command"] = command
    if "horovodrun" not in command:
        job["launcher"] = "horovod"
    gpus = data.get("requiredgpus")
    job["workers"] = gpus if isinstance(gpus, int) and 1 <= gpus <= _MOST_WORKERS else 1
    return json.dumps(job | {"resources": {"gpus": 1}})


def _text(data: dict[str, Any], name: str, default: str) -> str:
    """What was said, if that can be shown again."""
    value = data.get(name)
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST else default
