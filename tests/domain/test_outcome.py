"""Exit codes and signals in words."""

import pytest

from schedulearn.core.domain.outcome import Ending, Outcome


@pytest.mark.parametrize(
    ("outcome", "words", "ok", "counts"),
    [
        (Outcome(Ending.EXITED, exit_code=0), "finished", True, False),
        (Outcome(Ending.EXITED, exit_code=3), "exit code 3", False, True),
        (Outcome(Ending.EXITED, exit_code=127), "exit code 127: command not found", False, True),
        (Outcome(Ending.SIGNALLED, signal=11), "killed by SIGSEGV", False, True),
        (Outcome(Ending.SIGNALLED, signal=64), "killed by SIGRTMAX", False, True),
        (Outcome(Ending.SIGNALLED, signal=50), "killed by signal 50", False, True),
        (
            Outcome(Ending.OUT_OF_MEMORY, signal=9, memory_limit=2 * 10**9),
            "killed by SIGKILL: out of memory (limit 2 GB)",
            False,
            True,
        ),
        (Outcome(Ending.NOT_STARTED, detail="disk full"), "could not be started: disk full", False, True),
        (Outcome(Ending.LOST), "lost: nobody saw it end", False, False),
    ],
)
def test_words(outcome: Outcome, words: str, ok: bool, counts: bool) -> None:
    assert (outcome.words(), outcome.ok, outcome.counts_as_failure) == (words, ok, counts)
