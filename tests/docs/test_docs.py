"""What the documentation says is so: commands, links, variables, fields, routes, and the diagram of states."""

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from schedulearn.api.app import create_app
from schedulearn.api.body.spec import JobIn
from schedulearn.cli.common.errors import Failure
from schedulearn.cli.main import VERBS, app
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import JobSpec, Workers
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.process.prepare import process_environment
from support.pages import BLOCK, DOCS, PAGES, ROOT, blocks, name_of
from support.pages import commands as whole_commands

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
VARIABLE = re.compile(r"\bSCHEDULEARN_[A-Z_]+\b")


def read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text("utf-8")


def prose(page: Path) -> str:
    """The page without its code."""
    return BLOCK.sub("", page.read_text("utf-8"))


# --- commands


def command_lines() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in blocks(page):
            for line in whole_commands(block.text):
                yield name_of(page), line.replace("\\\n", " ").partition("<<'")[0].replace("\n", " ; ")


def commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line of shell: what stands between |, && and ;."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    found: list[str] = []
    for word in words:
        if set(word) <= set("|&;"):
            yield found
            found = []
        else:
            found.append(word)
    yield found


def shown(program: str) -> list[Any]:
    return [
        pytest.param(words[1:], id=f"{page}: {' '.join(words)}")
        for page, line in command_lines()
        for words in commands(line)
        for words in [words[1:] if words[:1] == ["do"] else words]
        if words[:1] == [program]
    ]


def parse(words: list[str]) -> None:
    """Parse as the command line would, verb by verb, without doing anything."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("schedulearn", list(words))
    while rest := [*getattr(context, "_protected_args", []), *context.args]:
        if not hasattr(context.command, "resolve_command"):
            return  # the words of a job's command
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("words", shown("schedulearn"))
def test_a_command_that_is_shown_can_be_typed(words: list[str]) -> None:
    parse(words)


def test_the_examples_of_the_help_can_be_typed() -> None:
    found = re.findall(r"^(schedulearn \w.*)$", read("docs", "reference", "command-line.md"), re.MULTILINE)
    examples = [line for line in found if "[OPTIONS]" not in line]
    assert len(examples) > 30
    for line in examples:
        for words in commands(line):
            if words[:1] == ["schedulearn"]:
                parse(words[1:])


@pytest.mark.parametrize(
    "words", [["runn"], ["ls", "--nothing"], ["nodes", "drian", "local"], ["describe", "x"], ["policy", "set"]]
)
def test_a_wrong_command_would_be_found(words: list[str]) -> None:
    with pytest.raises((typer.TyperException, Failure)):
        parse(words)


@pytest.mark.parametrize("words", shown("make"))
def test_a_make_target_that_is_shown_exists(words: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE)
    assert set(words) <= set(targets)


def test_every_verb_is_shown_at_work() -> None:
    page = read("docs", "reference", "command-line.md").partition("\n## Every verb\n")[0]
    verbs = {verb for group in VERBS.values() for verb in group}
    assert {verb for verb in verbs if f"schedulearn {verb}" not in page} == set()


# --- links


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        if anchor:
            assert anchor in anchors(file), link


def anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_index() -> None:
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall(read("docs", "index.md"))}
    assert {name_of(page) for page in DOCS.rglob("*.md") if page not in linked} == {"docs/index.md"}


# --- files and tests

NAMED = re.compile(r"`([a-z_0-9]+/[a-z_0-9/]+\.py)(?:::(\w+))?`")
_HOMES = (ROOT, ROOT / "src" / "schedulearn", ROOT / "tests")


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "decisions"], ids=name_of)
def test_every_file_and_test_that_is_named_exists(page: Path) -> None:
    for path, test in NAMED.findall(page.read_text("utf-8")):
        found = [home / path for home in _HOMES if (home / path).exists()]
        assert found, path
        assert not test or f"def {test}(" in found[0].read_text("utf-8"), f"{path}::{test}"


# --- variables


def test_every_variable_that_is_named_exists() -> None:
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "scripts" / "compiled.py"]  # the latter is read by builds alone
    known = set(VARIABLE.findall("".join(file.read_text("utf-8") for file in files)))
    for page in PAGES:
        assert set(VARIABLE.findall(page.read_text("utf-8"))) <= known, page


def test_every_variable_of_a_job_is_documented(tmp_path: Path) -> None:
    worker = WorkerId(JobId(17), 2, 0)
    launch = Launch(worker, NodeName("local"), JobSpec("x", "true", workers=Workers(1, 1, 4)), cpu_limit=2.0)
    given = process_environment(launch, WorkerPaths.of(tmp_path, worker), {"HOME": "/", "LANG": "C", "USER": "ann"})
    page = read("docs", "in-job.md") + read("docs", "reference", "environment.md")
    assert {name for name in given if not re.search(rf"`{name}[`=]", page)} == set()


# --- fields and routes


def fields_of(schema: dict[str, Any], definitions: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, field in schema["properties"].items():
        yield prefix + name
        if "$ref" in field:
            inner = definitions[field["$ref"].rpartition("/")[2]]
            if "properties" in inner:
                yield from fields_of(inner, definitions, f"{prefix}{name}.")


def test_the_reference_names_every_field_of_a_job_and_no_other() -> None:
    schema = JobIn.model_json_schema()
    fields = set(fields_of(schema, schema["$defs"]))
    named = re.findall(r"^\| `([a-z_.]+)` \|", read("docs", "reference", "job-spec.md"), re.MULTILINE)
    assert sorted(named) == sorted(fields)


def test_the_reference_names_every_route_and_no_other() -> None:
    description = create_app(cast(Any, SimpleNamespace(snapshot_limit=0))).openapi()
    routes = {f"{method.upper()} {path}" for path, methods in description["paths"].items() for method in methods}
    named = re.findall(r"^\| `([A-Z]+ /\S+)` \|", read("docs", "reference", "api.md"), re.MULTILINE)
    assert sorted(named) == sorted(routes)


def test_the_reference_names_every_parameter_of_a_route() -> None:
    description = create_app(cast(Any, SimpleNamespace(snapshot_limit=0))).openapi()
    page = read("docs", "reference", "api.md")
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            row = next(line for line in page.splitlines() if line.startswith(f"| `{method.upper()} {path}` |"))
            for parameter in operation.get("parameters", []):
                assert re.search(rf"[`?{{]{parameter['name']}[`=}}]", row, re.IGNORECASE), (row, parameter["name"])


# --- the diagram


def test_the_diagram_of_states_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "state-diagram.py"))
    page = read("docs", "architecture.md")
    assert script["with_diagram"](page) == page, "run: python scripts/state-diagram.py --write"


# --- what must not be there


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_path_of_somebodys_machine_is_shown(page: Path) -> None:
    assert not re.search(r"/(?:work|tmp|root|home)/", page.read_text("utf-8"))
