"""The form of a job: its fields, the spec that they make, and the same as a command line and as YAML.

Fields are the options of `submit`, and are read as the command line reads them. The service says what is wrong.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from schedulearn.wire import spec as spec_fields
from schedulearn.wire.drafts import Spec, Unreadable, as_number, spec_of

_ADDED = ("PATH", "VIRTUAL_ENV")  # by the client, as they are where it runs
Texts = dict[str, str]  # what stands in the fields
Faults = dict[str, str]  # what is wrong with them; "": with the job as a whole


class Field(NamedTuple):
    """One field of the form."""

    name: str  # as the option is called
    path: str  # where it stands in the spec
    kind: str  # how the service reads it
    label: str
    hint: str
    widget: str  # text, number, lines; words and ids: several in a line
    usual: str  # what it is if it is left empty
    choices: tuple[str, ...]


def _fields() -> Iterator[Field]:
    for one in spec_fields.FIELDS:
        if one.entry:
            label, hint, widget, usual = one.entry
            usual = usual or _text(one.kind, widget, one.default)
            yield Field(one.name, one.path, one.kind, label, hint, widget, usual, one.choices)


def _grouped() -> dict[str, tuple[Field, ...]]:
    """As the table says; what it does not place is shown at the end."""
    rest = {field.name: field for field in _fields()}
    placed = {title: tuple(rest.pop(name) for name in names) for title, names in spec_fields.GROUPS.items()}
    return placed | ({"More": tuple(rest.values())} if rest else {})


class Origin(NamedTuple):
    """The job that a form began as a copy of."""

    spec: Spec  # without what the caller's client has added
    texts: Texts
    added: dict[str, str]  # variables of whoever submitted it, so that `python` is the same program again


def options_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """What was filled in, as the options of the command line; without the command."""
    given = {name: _value(FIELDS[name].widget, text) for name, text in texts.items() if name != "command"}
    return {name: value for name, value in given.items() if value not in ("", [])}


def _value(widget: str, text: str) -> Any:
    if widget == "lines":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if widget in ("words", "ids"):
        words = [word for word in re.split(r"[\s,]+", text) if word]
        return words if widget == "words" else [as_number(word) for word in words]
    return as_number(text.strip()) if widget == "number" else text.strip()


def job_spec(texts: Mapping[str, str], origin: Origin | None = None) -> tuple[Spec, Faults]:
    """What to send to the service, and what could not be read.

    What was not changed in a copy is taken as it was, whatever its form; its files go along.
    """
    kept = [name for name, text in texts.items() if origin and text and text == origin.texts.get(name)]
    base = _kept(origin.spec, kept) if origin else {}
    changed = {name: text for name, text in texts.items() if name not in kept}
    command = [changed["command"].strip()] if changed.get("command", "").strip() else []
    options, faults = options_of(changed), Faults()
    for name in ("env", "target"):  # the two that have a form of their own on the command line
        try:
            spec_of({name: options.get(name)}, [])
        except Unreadable as problem:
            faults[name] = _words(problem.problem, problem.allowed)
            options.pop(name)
    return spec_of(options, command, base), faults


def whole(spec: Spec, origin: Origin | None) -> Spec:
    """What is sent: a copy has the variables, too, that a client would add."""
    return {**spec, "env": {**origin.added, **spec.get("env", {})}} if origin and origin.added else spec


def _kept(spec: Spec, names: Iterable[str]) -> Spec:
    found: Spec = {name: spec[name] for name in ("workdir", "snapshot") if spec.get("snapshot")}
    for name in names:
        outer, _, inner = FIELDS[name].path.rpartition(".")
        if outer:
            found.setdefault(outer, {})[inner] = spec[outer][inner]
        else:
            found[inner] = spec[inner]
    return found


# --- from a job


def copy_of(spec: Mapping[str, Any]) -> Origin:
    """The fields of a job that there is. What is as usual is left empty."""
    env = spec.get("env") or {}
    own = {**spec, "env": {name: value for name, value in env.items() if name not in _ADDED}}
    texts: Texts = {}
    for name, field in FIELDS.items():
        value: Any = own
        for part in field.path.split("."):
            value = (value or {}).get(part)
        text = _text(field.kind, field.widget, value)
        texts[name] = "" if text == field.usual else text
    return Origin(own, texts, {name: value for name, value in env.items() if name in _ADDED})


def _text(kind: str, widget: str, value: Any) -> str:
    """What would be written into the field."""
    if value in (None, [], {}):
        return ""
    match kind:
        case "command":
            return shlex.join(value) if isinstance(value, list) else str(value)
        case "env":
            return "\n".join(f"{name}={text}" for name, text in value.items())
        case "workers":
            return f"{value['min']}..{value['max']}" if isinstance(value, dict) else str(value)
        case "target":
            ((name, number),) = ((name, number) for name, number in value.items() if name != "then")
            return f"{name}={number:g}{':stop' if value.get('then') == 'stop' else ''}"
        case "preemptible":
            return str(value).lower()
        case "grace" | "duration":
            return f"{value:g}s"
    if isinstance(value, list):
        return ("\n" if widget == "lines" else " ").join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


GROUPS = _grouped()
FIELDS = {field.name: field for group in GROUPS.values() for field in group}


# --- what is wrong


def faults_of(errors: Iterable[Mapping[str, Any]]) -> Faults:
    """The service's words, by field; only the first of each."""
    found = Faults()
    for error in errors:
        place = str(error.get("field") or "")
        name = next((name for name, field in FIELDS.items() if f"{place}.".startswith(f"{field.path}.")), "")
        words = _words(str(error.get("problem", "")), str(error.get("allowed") or ""))
        found.setdefault(name, words if name or not place else f"{place}: {words}")
    return found


def _words(problem: str, allowed: str) -> str:
    return f"{problem} (allowed: {allowed})" if allowed and allowed not in problem else problem


# --- the same in other forms


def command_line(texts: Mapping[str, str], origin: Origin | None = None) -> str:
    """What does the same in a shell."""
    folder = origin.spec["workdir"] if origin and origin.spec.get("snapshot") else None
    options: dict[str, Any] = {"no_workdir": True} if folder is None else {"workdir": folder}
    options |= options_of(texts)
    if origin and texts.get("env") and texts["env"] == origin.texts["env"]:  # whose values may have several lines
        options["env"] = [f"{name}={value}" for name, value in origin.spec["env"].items()]
    parts = [
        _option(name, one) for name, value in options.items() for one in (value if isinstance(value, list) else [value])
    ]
    if command := texts.get("command", "").strip():
        parts.append(f"-- {shlex.quote(command)}")
    return _wrapped("schedulearn submit", parts)


def _option(name: str, value: Any) -> str:
    option = "--" + name.replace("_", "-")
    if value is True:
        return option
    text = str(value)  # one that begins like an option must not be taken for one
    return shlex.quote(f"{option}={text}") if text.startswith("-") else f"{option} {shlex.quote(text)}"


def _wrapped(begin: str, parts: Sequence[str]) -> str:
    line = " ".join((begin, *parts))
    return line if len(line) <= 80 else " \\\n  ".join((begin, *parts))


class _Dumper(yaml.SafeDumper):
    """Several lines stand as they are."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent)


def yaml_text(spec: Mapping[str, Any]) -> str:
    """A file for `schedulearn submit`, which packs the folder itself: it names no snapshot."""
    shown = {**spec, "workdir": spec.get("workdir")}
    shown.pop("snapshot", None)
    return yaml.dump(shown, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
