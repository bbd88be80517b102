"""What goes wrong in a loop that tries again, told in the log."""

import logging
import sys

from schedulearn.core.domain.errors import StoreAway


def log_fault(log: logging.Logger, words: str, *args: object, level: int = logging.WARNING) -> None:
    """Called where the exception was caught: with its traceback, unless it is one that the log was told of already.

    A database that is away is met by every loop again and again; the store tells it once, and once when it is back.
    """
    told = isinstance(sys.exception(), StoreAway)
    log.log(logging.DEBUG if told else level, words, *args, exc_info=True)
