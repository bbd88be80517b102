"""Stages that are not ours: from a Python file, or from an installed package.

A file: `my_policy.py:MyOrder`, a class in it, or `my_policy.py`, all its stages together. What it imports may lie
beside it. A package names its stages in `pyproject.toml`:

    [project.entry-points."schedulearn.stages"]
    "order.mine" = "my_package.policy:MyOrder"

The keywords that a class takes are its parameters, read by their declared types: with `quantum: Seconds = 60.0`
`--param quantum=1m` is `MyOrder(quantum=60.0)`.
"""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.policies.catalogue.registry import StageInfo
from schedulearn.core.policies.params import Parse, parser_of
from schedulearn.core.policies.stages import Allocate, Place

GROUP = "schedulearn.stages"
_METHODS = {
    "order": "key",
    "allocate": "allocate",
    "place": "place",
    "share": "share",
    "migrate": "migrate",
}  # what each kind of stage must have
_FILE_ALLOWED = "FILE.py or FILE.py:Class"


def is_file(name: str) -> bool:
    """Whether this is written as a class in a file."""
    return ".py:" in name or name.endswith(".py")


def stages_in_file(name: str) -> dict[str, str]:
    """By kind, as `FILE.py:Class`: the class that is named, else all stages of the file."""
    if not name.endswith(".py"):
        return {_kind_of(_class(name), name): name}
    found: dict[str, str] = {}
    for one in _classes(_module(Path(name))):
        kind = next((kind for kind, method in _METHODS.items() if method in vars(one)), None)
        if kind in found:
            both = f"{found[kind].rpartition(':')[2]} and {one.__name__}"
            raise InvalidSpec("policy", f"{name} has several that {kind}: {both}", f"{name}:{one.__name__}")
        if kind:
            found[kind] = f"{name}:{one.__name__}"
    if not found:
        raise InvalidSpec("policy", f"{name} has no stage: no class with one of the methods", _methods())
    return found


def _kind_of(found: Any, name: str) -> str:
    """Whether the class orders, allocates, places, shares or migrates."""
    for kind, method in _METHODS.items():
        if callable(getattr(found, method, None)):
            return kind
    raise InvalidSpec("policy", f"{name} is no stage: it has none of the methods", _methods())


def _methods() -> str:
    return ", ".join(_METHODS.values())


def from_file(kind: str, name: str) -> StageInfo:
    """The class `FILE.py:Class`; the file is run."""
    return _info(kind, _class(name), name)


def names(kind: str) -> list[str]:
    """The stages of this kind that installed packages add."""
    return sorted(point.name.removeprefix(f"{kind}.") for point in _points() if point.name.startswith(f"{kind}."))


def installed(kind: str, name: str) -> StageInfo | None:
    """The stage of this name that an installed package adds."""
    point = next((point for point in _points() if point.name == f"{kind}.{name}"), None)
    if point is None:
        return None
    try:
        found = point.load()
    except Exception as error:  # whatever a foreign package does when it is imported
        raise InvalidSpec(f"stages.{kind}", f"{point.value} cannot be loaded: {_words(error)}") from error
    return _info(kind, found, name)


def _points() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def _class(name: str) -> Any:
    path, colon, attribute = name.rpartition(":")
    if not colon or not attribute:
        raise InvalidSpec("policy", f"{name!r} does not say which class of the file", _FILE_ALLOWED)
    module = _module(Path(path))
    found = getattr(module, attribute, None)
    if not inspect.isclass(found):
        classes = ", ".join(one.__name__ for one in _classes(module))
        raise InvalidSpec("policy", f"{path} has no class {attribute!r}", classes or "none: it has no classes")
    return found


def _classes(module: ModuleType) -> list[type]:
    """Its own, not those that it imports."""
    return [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]


def _module(path: Path) -> ModuleType:
    """The file as a module: run once, however often it is asked for."""
    if not path.is_file():
        raise InvalidSpec("policy", f"there is no file {path}", _FILE_ALLOWED)
    name = f"schedulearn_stage_file_{abs(hash(path.resolve()))}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidSpec("policy", f"{path} is no Python file", _FILE_ALLOWED)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their own module up there
    beside = str(path.resolve().parent)
    sys.path.insert(0, beside)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise InvalidSpec("policy", f"{path} cannot be loaded: {_words(error)}") from error
    finally:
        sys.path.remove(beside)
    return module


def _info(kind: str, found: Any, name: str) -> StageInfo:
    method = _METHODS[kind]
    if not callable(found) or not callable(getattr(found, method, None)):
        raise InvalidSpec(f"stages.{kind}", f"{name} cannot {kind}: it has no method {method!r}")
    base = {"allocate": Allocate, "place": Place}.get(kind)
    if base is not None and not (inspect.isclass(found) and issubclass(found, base)):
        derived = f"class Mine({base.__name__}), with {base.__name__} from schedulearn.policy"
        raise InvalidSpec(f"stages.{kind}", f"{name} is not derived from {base.__name__}", derived)
    about = (inspect.getdoc(found) or "").partition("\n")[0]
    return StageInfo(_maker(kind, found, name), about, _params(found))


def _maker(kind: str, found: Callable[..., Any], name: str) -> Callable[..., Any]:
    def make(**params: Any) -> Any:
        try:
            return found(**params)
        except Exception as error:  # it is foreign code
            raise InvalidSpec(f"stages.{kind}", f"{name} cannot be made: {_words(error)}") from error

    return make


def _params(found: Any) -> dict[str, Parse]:
    """The keywords that it takes, each read by its declared type."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        types = get_type_hints(found.__init__ if inspect.isclass(found) else found, include_extras=True)
    except NameError:  # a type that the file does not know where it runs: such values are given as they are written
        types = {}
    parameters = inspect.signature(found).parameters.items()
    return {name: parser_of(types.get(name)) for name, parameter in parameters if parameter.kind in kinds}


def _words(error: BaseException) -> str:
    where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
    return f"{type(error).__name__}: {error}{where}"
