"""The fields of a spec are one table: what is in it is everywhere, and a new row is all that a new field takes."""

import subprocess
import sys
from dataclasses import fields

import pytest

from schedulearn.api.body.kinds import KINDS
from schedulearn.api.body.spec import JobIn, spec_out
from schedulearn.core.domain.spec import JobSpec, spec_from_dict, spec_to_dict
from schedulearn.wire import spec, types

# In a process of its own: what is made of the table is made when its module is loaded.
A_NEW_FIELD = """
from dataclasses import dataclass
from schedulearn.core.domain import spec as domain
from schedulearn.wire import spec as table

@dataclass(frozen=True, slots=True)
class JobSpec(domain.JobSpec):
    niceness: int | None = None  # what it does would be said by the code that reads it

domain.JobSpec = JobSpec
entry = table.Entry("Nice", widget="number")
row = table.Field("niceness", "count", None, "how nice it is", table.Option("N", "How nice."), entry)
table.FIELDS += (row,)

import typer
from schedulearn.api.body.spec import JobIn, spec_out
from schedulearn.cli.submit import app
from schedulearn.dashboard.views import form
from schedulearn.wire.drafts import spec_of

shown = JobIn.model_json_schema()["properties"]["niceness"]
assert shown["description"] == "how nice it is", shown
made = JobIn(command="true", niceness=3).to_domain(0.0)
assert made.niceness == 3
assert spec_out(made, private=True)["niceness"] == 3
try:
    JobIn(command="true", niceness="very")
except ValueError as error:
    assert "niceness" in str(error)
else:
    raise AssertionError("it is not checked")
option = next(p for p in typer.main.get_command(app).params if p.name == "niceness")
assert (option.opts, option.help, option.metavar) == (["--niceness"], "How nice.", "N")
assert spec_of({"niceness": 3}, [])["niceness"] == 3
assert [field.name for field in form.GROUPS["More"]] == ["niceness"]
assert form.job_spec({"niceness": "3"})[0] == {"niceness": 3}
"""


def test_a_new_field_is_a_row_and_what_it_does() -> None:
    done = subprocess.run([sys.executable, "-c", A_NEW_FIELD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_table_has_every_field_that_a_spec_has() -> None:
    assert {field.path.partition(".")[0] for field in spec.FIELDS} == {field.name for field in fields(JobSpec)}
    assert {field.kind for field in (*spec.FIELDS, *spec.CHANGES)} == set(KINDS)
    assert set(spec.PARTS) == {field.path.partition(".")[0] for field in spec.FIELDS if "." in field.path}


def test_the_defaults_of_the_table_are_those_of_the_domain() -> None:
    made = JobIn(command="true", name="a").to_domain(0.0)
    assert made == JobSpec("a", "true")
    assert spec_from_dict(spec_to_dict(made)) == made
    assert JobIn(**spec_out(made, private=True)).to_domain(0.0) == made


@pytest.mark.parametrize("name", [name for names in spec.GROUPS.values() for name in names])
def test_what_the_form_places_is_in_the_table(name: str) -> None:
    assert next(field for field in spec.FIELDS if field.name == name).entry


def test_the_client_takes_nothing_but_the_standard_library() -> None:
    program = "import sys, schedulearn.client, schedulearn.wire.spec, schedulearn.wire.drafts, schedulearn.wire.facts\n"
    program += "print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": str(types.__file__).rpartition("/schedulearn/")[0]})  # fmt: skip
    loaded = set(done.stdout.split())
    assert "schedulearn" in loaded, done.stderr
    assert loaded - {"schedulearn", "__main__"} <= sys.stdlib_module_names
