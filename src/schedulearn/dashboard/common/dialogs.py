"""Questions in front of a page: are you sure, and which value. A refusal is told where it was asked."""

from collections.abc import Awaitable, Callable

from nicegui import ui

from schedulearn.client import ClientError
from schedulearn.dashboard.common.live import Live, heading
from schedulearn.dashboard.views.markup import Safe
from schedulearn.dashboard.views.parts import problem as problem_of

Act = Callable[[], Awaitable[object]]


async def tell(act: Act, done: str) -> None:
    """Do it at once, and say that it is asked for; or why it was refused."""
    try:
        await act()
    except ClientError as problem:
        ui.notify(str(problem), type="negative", multi_line=True, timeout=8000)
    else:
        ui.notify(done, type="positive", timeout=2500)


class Dialog:
    """A question. Make what it shows inside of `with dialog.content:`, then `offer` what can be done."""

    def __init__(self, title: str) -> None:
        with ui.dialog(value=True) as self._dialog:
            self._dialog.props('aria-label="question"')
            with ui.element("div").classes("dialog"):
                heading(title)
                self.content = ui.element("div").classes("content")
                self._problem = Live()
                self._buttons = ui.element("div").classes("buttons")
        self._dialog.on("hide", self._dialog.delete)

    def offer(self, verb: str, act: Act, done: str, destroys: bool = False) -> Act:
        """A button that does it, and one that does not. What it does may be called for by a key as well."""

        async def go() -> None:
            if await self._try(act):
                self._dialog.close()
                ui.notify(done, type="positive", timeout=2500)

        with self._buttons:
            ui.button("Back", on_click=self._dialog.close, color=None).props("flat no-caps")
            ui.button(verb, on_click=go, color="negative" if destroys else "primary").props("unelevated no-caps")
        return go

    def only_tell(self) -> None:
        """There is nothing to be done, but to read it."""
        with self._buttons:
            ui.button("Back", on_click=self._dialog.close, color=None).props("flat no-caps autofocus")

    async def _try(self, act: Act) -> bool:
        try:
            await act()
        except ClientError as problem:
            self._problem.show(problem_of(str(problem)))
            return False
        self._problem.show(Safe(""))
        return True


def confirm(title: str, words: str, verb: str, act: Act, done: str) -> None:
    """For what cannot be undone."""
    asked = Dialog(title)
    with asked.content:
        ui.label(words)
    asked.offer(verb, act, done, destroys=True)


def ask(title: str, value: str, hint: str, act: Callable[[str], Awaitable[object]], done: str) -> None:
    """One value, as the command line takes it; the service says if it is wrong, and the dialog stays open."""
    asked = Dialog(title)
    with asked.content:
        field = ui.input(title, value=value).props(f'autofocus outlined dense hint="{hint}"')
    field.on("keydown.enter", asked.offer("Change", lambda: act(field.value), done))


def choose(
    title: str,
    label: str,
    options: list[str],
    act: Callable[[str], Awaitable[object]],
    verb: str,
    done: str,
    note: Safe,
) -> None:
    """One of these, if there is any; `note` says why not others."""
    asked = Dialog(title)
    with asked.content:
        if options:
            field = ui.select(options, label=label, value=options[0]).props("outlined dense")
        Live(note)
    if not options:
        asked.only_tell()
        return
    asked.offer(verb, lambda: act(field.value), done)
