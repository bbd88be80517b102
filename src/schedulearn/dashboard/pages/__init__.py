"""The pages, each in a file with its address."""

from schedulearn.dashboard.pages import job, jobs, overview, policies, results, submit, timeline
from schedulearn.dashboard.pages.nowhere import nowhere

__all__ = ["nowhere", "register"]


def register() -> None:
    """Tell NiceGUI which pages there are."""
    for page in (overview, jobs, job, timeline, submit, policies, results):
        page.register()
