"""Why a notice did not arrive."""

from schedulearn.core.domain.errors import SchedulearnError


class Undelivered(SchedulearnError):
    """It did not arrive. `final`: trying again would not help."""

    def __init__(self, problem: str, final: bool = False) -> None:
        self.final = final
        super().__init__(problem)
