"""`policy check`: which rule a policy breaks, and by what it is seen."""

from pathlib import Path

import pytest

from schedulearn.core.policies.catalogue.presets import PRESETS
from schedulearn.lab.sim.check import RULES, Broken, check
from schedulearn.lab.sim.run import choose

HEAD = """
import random
from schedulearn.policy import Allocate, Order, Place
"""
BAD = {
    "no error": """
class Mine(Order):
    def key(self, job, now, facts):
        return (1 / (job.submitted_at - 7),) if job.id != 2 else (1 / 0,)
""",
    "allowed": """
class Mine(Allocate):
    elastic = True
    def allocate(self, allocation):
        for job in allocation.waiting():
            if not allocation.give(job, job.shape.workers.min):
                allocation.refuse(job)
""",
    "ends": """
class Mine(Allocate):
    def allocate(self, allocation):
        for job in allocation.waiting():
            if job.shape.workers.want > 2 or not allocation.give(job, job.shape.workers.want):
                allocation.refuse(job)
""",
    "settles": """
class Mine(Allocate):
    def allocate(self, allocation):
        for job in allocation.waiting():
            allocation.refuse(job)
        return allocation.now + 0.001
""",
    "repeats": """
LUCK = random.Random(3)
class Mine(Place):
    def place(self, job, shape, workers, nodes, memory):
        free = [node.name for node in nodes for _ in range(node.room_for(shape))]
        return LUCK.sample(free, workers) if len(free) >= workers else None
""",
}


def tried(tmp_path: Path, text: str, tries: int = 60) -> Broken | None:
    (tmp_path / "mine.py").write_text(HEAD + text)
    (choice,) = choose([str(tmp_path / "mine.py")], {}, {})
    return check(choice, tries)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_found_broken_by_a_small_example(tmp_path: Path, rule: str) -> None:
    broken = tried(tmp_path, BAD[rule])
    assert broken
    assert (broken.rule, len(broken.example.jobs)) == (rule, 2 if rule == "no error" else 1)
    assert bool(broken.trace) is (rule == "no error")


def test_the_example_of_a_rule_about_size_is_as_small_as_that_size(tmp_path: Path) -> None:
    broken = tried(tmp_path, BAD["ends"])
    assert broken
    (job,) = broken.example.jobs
    assert (job.gpus, job.arrival, job.duration, job.workers) == (3, 0.0, 10.0, None) or job.gpus == 4
    assert broken.problem == "1 of 1 jobs wait for ever"


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_our_own_keep_them(preset: str) -> None:
    (choice,) = choose([preset], {}, {})
    heard: list[int] = []
    assert check(choice, 6, told=heard.append) is None
    assert heard == [1, 2, 3, 4, 5, 6]
