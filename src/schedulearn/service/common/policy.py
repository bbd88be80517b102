"""The policy that a setting describes."""

from collections.abc import Mapping
from typing import Any

from schedulearn.core.domain.errors import SchedulearnError
from schedulearn.core.policies.catalogue.presets import DEFAULT_PRESET, build_policy
from schedulearn.core.policies.stages import Policy


def policy_from(data: Mapping[str, Any] | None) -> Policy:
    """The policy that a setting or a request describes; the default where it says nothing."""
    if not data:
        return build_policy(DEFAULT_PRESET)
    return build_policy(data["preset"], data.get("stages"), data.get("params"))


def policy_or_plain(data: Mapping[str, Any] | None) -> tuple[Policy, SchedulearnError | None]:
    """The same; the plainest, with what is wrong, if it can no longer be made: a stage may have gone since."""
    try:
        return policy_from(data), None
    except SchedulearnError as error:
        return build_policy(), error
