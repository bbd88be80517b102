"""A clock that stands still until the test moves it."""


class HandClock:
    def __init__(self, at: float = 1_700_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def pass_time(self, seconds: float) -> None:
        self.at += seconds
