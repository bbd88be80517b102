"""When a pool of threads follows, and when it is somebody else's."""

import time

import pytest

from schedulearn.sitehook.schedulearn_threads.follower import raise_later
from schedulearn.sitehook.schedulearn_threads.pools import Pool


class Library:
    """Has a number of threads."""

    def __init__(self, number: int) -> None:
        self.number = number

    def pool(self) -> Pool:
        return Pool(lambda: self.number, lambda number: setattr(self, "number", number), bound=False)


def test_it_follows() -> None:
    library = Library(4)
    pool = library.pool()
    for wanted, number in ((4, 4), (1, 1), (2, 2), (8, 8), (None, 4)):
        pool.follow(wanted)
        assert (library.number, pool.number) == (number, number)


def test_a_number_that_is_not_ours_stays() -> None:
    library = Library(4)
    pool = library.pool()
    pool.follow(2)
    library.number = 3
    for wanted in (1, 2, 4, None):
        pool.follow(wanted)
        assert (library.number, pool.number) == (3, 3)


def test_an_old_number_of_ours_that_comes_back_is_changed_again() -> None:
    """scikit-learn, for example, lets BLAS have one thread for a while, and then sets what it found."""
    library = Library(4)
    pool = library.pool()
    found, library.number = library.number, 1
    pool.follow(2)
    library.number = found
    pool.follow(2)
    assert library.number == 2


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), TimeoutError("too long"), OSError(2, "gone")])
def test_what_the_handler_of_a_signal_raises_is_not_lost(error: BaseException) -> None:
    """It may run while the main thread does something for us, called from C, which would only print it."""
    with pytest.raises(type(error)) as raised:  # noqa: PT012 (it is raised by whatever comes next)
        raise_later(error)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            pass
    assert raised.value.args == error.args
    if isinstance(error, SystemExit):
        assert getattr(raised.value, "code", None) == 3
