"""What a spec needs from the place where it is submitted: its folder, and its caller's environment."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedulearn.client.errors import MissingVariable, SnapshotError

_OF_THE_CALLER = ("PATH", "VIRTUAL_ENV")  # so that `python` means the same program as in the caller's shell


def fill_env(spec: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """A copy of the spec whose `env` is complete: null values are taken from `environ`.

    A job that runs in a container has the container's own PATH; a plain process gets the caller's.
    """
    env = spec.get("env") or {}
    if not isinstance(env, Mapping):
        return dict(spec)  # the service will say what is wrong with it
    missing = [name for name, value in env.items() if value is None and name not in environ]
    if missing:
        raise MissingVariable(missing)
    filled = {name: environ[name] if value is None else value for name, value in env.items()}
    if not spec.get("image"):
        filled = {name: environ[name] for name in _OF_THE_CALLER if name in environ} | filled
    return {**spec, "env": filled}


def working_folder(spec: Mapping[str, Any], workdir: Path | None) -> Path | None:
    """The folder to pack: `workdir`, else the spec's, else the present one. None if the spec's is null."""
    if workdir is None:
        named = spec.get("workdir", ".")
        if named is None:
            return None
        workdir = Path(str(named)).expanduser()
    folder = Path(os.path.abspath(workdir))  # noqa: PTH100 # resolve() would follow links: people know their own path
    if not folder.is_dir():
        raise SnapshotError(f"workdir: there is no folder {folder}")
    return folder
