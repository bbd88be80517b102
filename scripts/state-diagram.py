"""Print the diagram of the job states, in Mermaid, made from the table of transitions.

With `--write` it is put into docs/architecture.md instead, between its two markers.
"""

import sys
from pathlib import Path

from schedulearn.core.domain.states import FINISHED, TRANSITIONS, JobState

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
BEGIN = "<!-- state diagram: made by scripts/state-diagram.py --write -->"
END = "<!-- end of state diagram -->"


def diagram() -> str:
    """One arrow for each pair of states, with all that leads from the one to the other."""
    arrows: dict[tuple[JobState, JobState], list[str]] = {}
    for (state, trigger), after in TRANSITIONS.items():
        arrows.setdefault((state, after), []).append(trigger)
    lines = ["stateDiagram-v2", f"    [*] --> {JobState.QUEUED}: submit"]
    lines += [f"    {state} --> {after}: {', '.join(triggers)}" for (state, after), triggers in arrows.items()]
    lines += [f"    {state} --> [*]" for state in JobState if state in FINISHED]
    return "\n".join(lines)


def with_diagram(page: str) -> str:
    """The page with the present diagram between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has lost its markers: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n```mermaid\n{diagram()}\n```\n{END}{after}"


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        PAGE.write_text(with_diagram(PAGE.read_text("utf-8")), "utf-8")
    elif arguments:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    else:
        sys.stdout.write(diagram() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
