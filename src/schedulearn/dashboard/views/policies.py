"""Policies in words: the one in force, and all that there are."""

from collections.abc import Mapping
from typing import Any

from schedulearn.dashboard.views.markup import Child, Safe, el, join
from schedulearn.dashboard.views.parts import coded, facts, panel
from schedulearn.wire import types
from schedulearn.wire.words import errors_in_words, parameters

STAGES = {
    "order": "which job goes first",
    "allocate": "how many workers",
    "place": "on which server",
    "share": "how much CPU",
    "migrate": "which jobs move",
}


def in_force(policy: types.Policy) -> Safe:
    stages = policy["available"]["stages"]
    told: list[tuple[str, Child]] = [("policy", el("b", policy["preset"]))]
    for kind, name in policy["stages"].items():
        about = stages.get(kind, {}).get(name, {}).get("about", "")
        told.append((kind, join(el("b", name), el("small", " ", coded(about)))))
    told.append(("parameters", parameters(policy["params"])))
    told += [(f"estimates by {one['source']}", errors_in_words(one)) for one in policy["estimates"]]
    trouble: list[Child] = []
    if policy["fault"]:
        trouble.append(el("p", el("b", "The policy failed: "), str(policy["fault"].get("error")), class_="problem"))
    for node, problem in policy["sharing_problems"].items():
        trouble.append(el("p", el("b", f"{node} is shared fairly: "), problem, class_="problem"))
    return join(trouble, panel("Current policy", facts(told)))


def card(policy: types.Policy, name: str) -> Safe:
    """What one policy does, in two sentences, and what it is made of."""
    available = policy["available"]
    detail = available["details"][name]
    head = el("h3", name, el("span", "current", class_="pill running") if name == policy["preset"] else None)
    words = el("p", coded(f"{available['presets'][name]} {detail['more']}"))
    parts = [_stage(available, kind, chosen) for kind, chosen in detail["stages"].items()]
    return join(head, words, el("ul", parts, class_="stages"))


def _stage(available: Mapping[str, Any], kind: str, name: str) -> Safe:
    info = available["stages"][kind].get(name, {})
    defaults = info.get("defaults") or {}
    set_by = (
        el("small", " ", ", ".join(f"{key}={value or '…'}" for key, value in defaults.items())) if defaults else None
    )
    about = f"{STAGES.get(kind, kind)}: {info.get('about', '').replace('`', '')}"
    return el("li", el("span", kind, class_="kind"), el("b", name), set_by, title=about)


def parameters_of(policy: types.Policy, stages: Mapping[str, str]) -> dict[str, str]:
    """The parameters of these stages with what they are unless somebody says otherwise."""
    known = policy["available"]["stages"]
    found: dict[str, str] = {}
    for kind, name in stages.items():
        found |= known.get(kind, {}).get(name, {}).get("defaults") or {}
    return found
