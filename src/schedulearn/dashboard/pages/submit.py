"""`/submit`: a job from a form, checked as it is filled in; `/submit?copy=17` begins with the fields of job 17."""

from copy import deepcopy
from typing import Any

from fastapi import Request
from nicegui import ui

from schedulearn.client import ApiError, Client, MaybeSubmitted, NoSuchJob, new_key
from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import Live, columns, section
from schedulearn.dashboard.views import form
from schedulearn.dashboard.views.markup import Safe, el, join
from schedulearn.dashboard.views.parts import job_link, panel

_MAYBE = "No answer: the job may have been submitted. Submit it again, unchanged: it is never submitted twice."
_PAUSE = 200  # milliseconds without a key until what was typed is looked at


async def submit(request: Request, copy: str = "") -> None:
    frame = Frame(request, "Submit", "/submit")
    origin: form.Origin | None = None
    with ui.element("div").classes("page"):
        if copy.isascii() and copy.isdigit() and len(copy) < 16:
            try:
                origin = await frame.first(lambda client: _origin(client, int(copy)))
                if origin is None:
                    return
            except NoSuchJob as problem:
                Live(el("p", f"{problem}: nothing to copy.", class_="problem"))
        page = SubmitPage(frame, origin, copy if origin else "")
    await frame.attempt(page.check)
    frame.keep(frame.session.overview)  # of which it shows nothing but whether the service is there


def _origin(client: Client, number: int) -> form.Origin:
    job = client.job(number)
    spec = dict(job["spec"])
    if not job["yours"]:
        spec["env"] = {}  # its values are its owner's
    return form.copy_of(spec)


class Keys:
    """The key with which a job is sent. What is sent once more has the same, and makes no second job."""

    def __init__(self) -> None:
        self._key, self._sent = "", dict[str, Any]()

    def of(self, sent: dict[str, Any]) -> str:
        if not self._key or sent != self._sent:
            self._key, self._sent = new_key(), deepcopy(sent)
        return self._key


class SubmitPage:
    def __init__(self, frame: Frame, origin: form.Origin | None, copied: str) -> None:
        self._frame, self._origin = frame, origin
        self._fields: dict[str, Any] = {}
        self._touched = {name for name, text in (origin.texts if origin else {}).items() if text}
        self._asked = 0  # so that a late answer is not taken for the newest
        self._keys = Keys()
        with columns() as (main, side):
            with main:
                for title, fields in form.GROUPS.items():
                    self._group(title, fields)
            with side.classes("stays"):
                with section(f"A copy of job {copied}" if copied else "A new job"):
                    self._verdict = Live().props('role="status" aria-live="polite"')
                    with ui.element("div").classes("buttons"):
                        ui.button("Submit job", on_click=self._submit, color="primary").props("unelevated no-caps")
                self._line, self._yaml = Live(), Live()
                Live(_files(origin, copied))

    def _group(self, title: str, fields: tuple[form.Field, ...]) -> None:
        with section(title), ui.element("div").classes("form"):
            for field in fields:
                self._fields[field.name] = self._field(field)

    def _field(self, field: form.Field) -> Any:
        text = self._origin.texts[field.name] if self._origin else ""
        changed = lambda: self._changed(field.name)  # noqa: E731
        made: Any
        if field.choices:
            made = ui.select(list(field.choices), label=field.label, value=text or field.usual, on_change=changed)
        elif field.widget == "lines":
            made = ui.textarea(field.label, value=text, on_change=changed).classes("lines").props("autogrow")
        else:
            made = ui.input(field.label, value=text, placeholder=field.usual, on_change=changed)
        made.props(f'outlined dense stack-label debounce={_PAUSE} hide-bottom-space name="{field.name}"')
        made.props["hint"] = field.hint
        return made

    @property
    def _texts(self) -> form.Texts:
        values = {name: str(made.value or "") for name, made in self._fields.items()}
        chosen = {name for name, field in form.FIELDS.items() if field.choices}
        return {n: "" if n in chosen and text == form.FIELDS[n].usual else text for n, text in values.items()}

    async def _changed(self, name: str) -> None:
        self._touched.add(name)
        await self._frame.attempt(self.check)

    async def check(self) -> None:
        """Say what is wrong, as the service sees it, and show what the form stands for."""
        texts = self._texts
        spec, faults = form.job_spec(texts, self._origin)
        self._line.show(_code("Command line", form.command_line(texts, self._origin)))
        self._yaml.show(_code("YAML", form.yaml_text(spec)))
        self._asked += 1
        mine = self._asked
        name, found = await self._judged(spec)
        if list(found) == ["command"] and "command" not in spec:  # which hides what is wrong elsewhere
            found |= (await self._judged({**spec, "command": ":"}))[1]
        if mine == self._asked:
            self._tell(found | faults, name)

    async def _judged(self, spec: dict[str, Any]) -> tuple[str, form.Faults]:
        """Its name, or what the service finds wrong."""
        sent = form.whole(spec, self._origin)
        try:
            checked = await self._frame.session.ask(lambda client: client.recheck(sent))
        except ApiError as problem:
            return "", _refused(problem)
        return str(checked["spec"]["name"]), {}

    def _tell(self, faults: form.Faults, name: str) -> None:
        """What is not filled in yet is not called wrong."""
        for field, made in self._fields.items():
            made.error = faults.get(field) if field in self._touched else None
        told = [made.error for made in self._fields.values() if made.error]
        if not faults:
            words = el("p", "Valid: the job will be queued as ", el("b", name), ".", class_="fine")
        elif told or "" in faults:
            count = "One field is not valid." if len(told) == 1 else f"{len(told)} fields are not valid."
            words = el("p", faults.get("") or count, class_="problem")
        else:
            words = el("p", "Enter a command.", class_="note")
        self._verdict.show(words)

    async def _submit(self) -> None:
        await self._frame.attempt(self._send)

    async def _send(self) -> None:
        spec, faults = form.job_spec(self._texts, self._origin)
        self._touched = set(self._fields)
        self._asked += 1
        sent = form.whole(spec, self._origin)
        if not faults:
            key = self._keys.of(sent)
            try:
                made = await self._frame.session.ask(lambda client: client.resubmit(sent, key))
            except ApiError as problem:
                faults = _refused(problem)
            except MaybeSubmitted:
                self._verdict.show(el("p", _MAYBE, class_="problem"))
                raise
            else:
                ui.navigate.to(f"/jobs/{made['id']}")
                return
        self._tell(faults, "")


def _refused(problem: ApiError) -> form.Faults:
    """What is wrong with the fields; anything else is trouble of another kind, and raised again."""
    if problem.status != 422:
        raise problem
    return form.faults_of(problem.errors)


def _code(title: str, words: str) -> Safe:
    return panel(title, el("pre", words, class_="code", tabindex="0", aria_label=title))


def _files(origin: form.Origin | None, copied: str) -> Safe:
    if origin and origin.spec.get("snapshot"):
        words = join("The files of ", job_link(int(copied)), " as they were then: ", el("code", origin.spec["workdir"]))
    else:
        words = join(
            "None: the job runs in an empty folder. To include a folder, submit on the command line there without ",
            el("code", "--no-workdir"), ", or copy a job that has one.",
        )  # fmt: skip
    return panel("Files", el("p", words, class_="words"))
