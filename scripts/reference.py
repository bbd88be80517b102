"""Fill in what the pages of docs/reference have from the code: the command line, the job spec, the API, variables.

The rest of them is written by hand: it stands around the marks, or in the last column of the job spec's tables.
Without an argument it says which of them are out of date; with `--write` they are written.
"""

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import typer

from schedulearn import variables
from schedulearn.api.app import create_app
from schedulearn.api.body.spec import JobIn
from schedulearn.cli.main import VERBS, app

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
MADE = "<!-- Made by scripts/reference.py --write from the code: change it there. -->"
END = "<!-- end of what is made -->"
Json = Mapping[str, Any]


def pages() -> dict[str, str]:
    """The text of each page by its file's name."""
    made = {"command-line.md": command_line, "api.md": api, "environment.md": environment}
    texts = {name: _filled((FOLDER / name).read_text("utf-8"), make()) for name, make in made.items()}
    return texts | {"job-spec.md": job_spec((FOLDER / "job-spec.md").read_text("utf-8"))}


def _filled(page: str, lines: Iterator[str]) -> str:
    before, after = page.split(MADE)[0], page.split(END)[1]
    return before + "\n".join([MADE, *lines]).rstrip() + f"\n\n{END}" + after


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def table(*titles: str) -> list[str]:
    return [row(*titles), row(*("---" for _ in titles))]


# --- the command line


def command_line() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    context = root.make_context("schedulearn", ["ls"])
    for group, verbs in VERBS.items():
        yield from ["", f"### {group}: every option"]
        for verb in verbs:
            yield from _verb(f"schedulearn {verb}", root.get_command(context, verb), context, "####")


def _verb(path: str, command: Any, parent: Any, level: str) -> Iterator[str]:
    context = command.make_context(path.rpartition(" ")[2], [], parent=parent, resilient_parsing=True)
    yield from ["", f"{level} {path.removeprefix('schedulearn ')}", ""]
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b")
    yield from [text.strip(), ""] if text.strip() else []
    yield from ["```text", re.sub(r"\s+", " ", command.get_usage(context)).removeprefix("Usage: "), "```", ""]
    yield from _parameters(command, context)
    if examples := [line.strip() for line in examples.splitlines() if line.strip().startswith(("schedulearn", "echo"))]:
        yield from ["```text", *examples, "```"]
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from _verb(f"{path} {name}", below, context, level + "#")


def _parameters(command: Any, context: Any) -> Iterator[str]:
    known = [p.get_help_record(context) for p in command.params if "--help" not in p.opts]
    rows = [row(f"`{re.sub(' <.*', '', names)}`", text) for names, text in filter(None, known)]
    if rows:
        yield from [*table("argument or option", "meaning"), *rows, ""]


# --- the job spec


def job_spec(page: str) -> str:
    """The page with type and default of each field, as the service checks them."""
    schema = JobIn.model_json_schema()
    known = dict(_fields(schema, schema["$defs"], ""))

    def filled(match: re.Match[str]) -> str:
        kind, default = known.get(match[1], ("", ""))
        return row(f"`{match[1]}`", kind, default) + f" {match[2]} |"

    return re.sub(r"^\| `([a-z_.]+)` \|(?:(?:[^|]|\\\|)*\|){2} (.*) \|$", filled, page, flags=re.MULTILINE)


def _fields(schema: Json, definitions: Json, prefix: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each with its type and its default."""
    for name, field in schema["properties"].items():
        default = "needed" if name in schema.get("required", ()) else _value(field.get("default"))
        below = _resolved(field, definitions)
        nested = "properties" in below and "$ref" in str(field)
        yield f"{prefix}{name}", (_type(field, definitions), "" if nested else default)
        if nested:
            yield from _fields(below, definitions, f"{prefix}{name}.")


def _resolved(field: Json, definitions: Json) -> Json:
    reference = field.get("$ref")
    return cast(Json, definitions[reference.rpartition("/")[2]]) if reference else field


def _type(field: Json, definitions: Json) -> str:
    """In a few words."""
    if "$ref" in field:
        below = _resolved(field, definitions)
        return _type(below, definitions) if "properties" not in below else "a map"
    if "anyOf" in field:
        parts = [_type(one, definitions) for one in field["anyOf"]]
        return " or ".join(dict.fromkeys(part for part in parts if part != "null"))
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in dict.fromkeys(str(one).lower() for one in field["enum"]))
    if "const" in field:
        return f"`{field['const']}`"
    return _plain_type(field, definitions)


def _plain_type(field: Json, definitions: Json) -> str:
    kind = field.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(_NAMES.get(one, one) for one in kind if one != "null")
    if kind == "array":
        return f"a list of: {_type(field.get('items', {}), definitions)}"
    hint = field.get("description", "")
    if kind == "string" and hint.startswith(("such", "a ")):
        return f"{_of(kind)}, {hint}"
    return _of(kind) + _bounds(field)


_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no", "object": "a map"}


def _of(kind: str) -> str:
    return _NAMES.get(kind, kind)


def _bounds(field: Json) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None and high is not None and high < 1e9:
        return f", {low:g} to {high:,.15g}"
    return f", {low:,.15g} or more" if low is not None else ""


def _value(value: object) -> str:
    if value is None or isinstance(value, dict):
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


# --- the API


def api() -> Iterator[str]:
    described = create_app(cast(Any, SimpleNamespace(snapshot_limit=0))).openapi()
    schemas: Json = described["components"]["schemas"]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield from _route(method.upper(), path, operation, schemas)
    shown = [name for name in schemas if name not in ("JobIn", "HTTPValidationError", "ValidationError")]
    yield from ["", "## Objects"]
    for name in sorted(name for name in shown if "properties" in schemas[name]):
        yield from ["", f"### {name}", ""]
        if text := schemas[name].get("description"):
            yield from [_paragraph(text), ""]
        yield from table("field", "type", "default", "")
        yield from _flat_fields(schemas[name], schemas)


def _route(method: str, path: str, operation: Json, schemas: Json) -> Iterator[str]:
    yield from ["", f"### {method} {path}", ""]
    given = operation.get("parameters") or ()
    if given:
        yield from table("parameter", "in", "type", "")
        for one in given:
            must = " (needed)" if one.get("required") else ""
            kind = _type(one.get("schema", {}), schemas)
            yield row(f"`{one['name']}`", one["in"] + must, kind, one.get("description", ""))
        yield ""
    if body := operation.get("requestBody"):
        yield f"Body: {_content(body, schemas)}."
        yield ""
    good = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    for status, answer in good.items():
        yield f"Answer {status}: {_content(answer, schemas)}."
    errors = sorted(status for status in operation["responses"] if status >= "4")
    yield from ["", f"Errors: {', '.join(errors)}."]


def _content(answer: Json, schemas: Json) -> str:
    found = [
        _named(kind, content.get("schema", {}), schemas) for kind, content in (answer.get("content") or {}).items()
    ]
    return " or ".join(found) or "empty"


def _named(kind: str, schema: Json, schemas: Json) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name == "JobIn":
        return "[a job spec](job-spec.md)"
    if name and "properties" in schemas[name]:
        return f"[{name}](#{name.lower()})"
    return f"`{kind}`" + (f": {_type(schema, schemas)}" if kind == "application/json" and schema else "")


def _flat_fields(schema: Json, schemas: Json) -> Iterator[str]:
    for name, field in schema["properties"].items():
        default = "" if name in schema.get("required", ()) else _value(field.get("default"))
        yield row(f"`{name}`", _linked(field, schemas), default, field.get("description", ""))


def _linked(field: Json, schemas: Json) -> str:
    inner = field.get("items", field)
    inner = next((one for one in inner.get("anyOf", ()) if "$ref" in one), inner)
    name = str(inner.get("$ref", "")).rpartition("/")[2]
    if name and "properties" in schemas[name]:
        target = "job-spec.md" if name == "JobIn" else f"#{name.lower()}"
        return ("a list of: " if field.get("type") == "array" else "") + f"[{name}]({target})"
    return _type(field, schemas)


def _paragraph(text: str) -> str:
    return " ".join(text.split())


# --- environment variables


def environment() -> Iterator[str]:
    groups = {
        "The command line, and the Python client": variables.CLIENT,
        "The service": variables.SERVICE,
        "Inside a job": variables.JOB,
    }
    for title, known in groups.items():
        yield from ["", f"## {title}", "", *table("variable", "meaning")]
        yield from (row(f"`{name}`", text) for name, text in known.items())


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--write"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    made = pages()
    old = [name for name, text in made.items() if not _same(FOLDER / name, text)]
    for name in old:
        if arguments:
            (FOLDER / name).write_text(made[name], "utf-8")
        sys.stdout.write(f"{'written' if arguments else 'out of date'}: {name}\n")
    return 0 if arguments else len(old)


def _same(file: Path, text: str) -> bool:
    return file.exists() and file.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
