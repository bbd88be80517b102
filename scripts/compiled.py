"""`SCHEDULEARN_COMPILE=1 pip install .` compiles the core with mypyc: the same decisions, in less time.

Hatchling calls this whenever it builds a wheel; it does nothing unless it is asked to. Why and what for:
docs/decisions/0021-compiled-core.md.
"""

import os
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What is copied, or sent to another process, stays as it is: mypyc's frozen dataclasses can be neither. So do stages
# that others may derive from.
COMPILED = (
    *("core/control/*.py", "core/domain/job.py", "core/domain/speedup.py", "core/policies/allocate/*.py"),
    *("lab/sim/engine.py", "lab/sim/model.py"),
)


class Compiled(BuildHookInterface[Any]):
    """Adds the compiled modules to the wheel; their sources stay beside them, for whoever reads a traceback."""

    def dependencies(self) -> list[str]:
        return ["mypy>=1.10", "setuptools"] if self._is_asked else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not self._is_asked or version == "editable":  # there, what was compiled would hide every later change
            return
        self._kept = tempfile.TemporaryDirectory()  # until the wheel is written
        folder = Path(self._kept.name)
        shutil.copytree(Path(self.root, "src", "schedulearn"), folder / "schedulearn")
        with chdir(folder):
            _compile([str(path) for name in COMPILED for path in sorted(Path("schedulearn").glob(name))])
        build_data["pure_python"], build_data["infer_tag"] = False, True
        for path in (folder / "lib").rglob("*.so"):
            build_data["force_include"][str(path)] = str(path.relative_to(folder / "lib"))

    @property
    def _is_asked(self) -> bool:
        return os.environ.get("SCHEDULEARN_COMPILE") == "1"


def _compile(files: list[str]) -> None:
    """To `lib`, from the sources in this folder."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    options = ["--ignore-missing-imports", "--follow-imports=silent"]
    modules = mypycify([*options, *[name for name in files if not name.endswith("__init__.py")]], debug_level="0")
    command: Any = Distribution({"name": "schedulearn", "ext_modules": modules}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = "lib", "temp"
    command.ensure_finalized()
    command.run()
