"""A Keras model under real Horovod, with 1, 2 and again 1 process, without a restart."""

from pathlib import Path

from schedulearn.client import Client
from support.horovod import ENV, EXAMPLE, LONG, MARKS, steps
from support.jobs import ended, output, spec, submit
from support.waiting import wait_until

pytestmark = MARKS


def trains_with(client: Client, job: int, size: int) -> None:
    def last() -> list[int]:
        return [now for _, now in steps(output(client, job))[-3:]]

    wait_until(lambda: last() == [size] * 3, LONG, f"training with {size}")


def test_processes_come_and_go(client: Client, tmp_path: Path) -> None:
    until = tmp_path / "over"
    command = f"python {EXAMPLE} --steps 1000000 --pace 0.05 --until {until}"
    job = submit(client, spec(command, launcher="horovod", workers="1..2", env=ENV, resources={"cpus": 0.9}))
    trains_with(client, job, 1)
    client.update(job, workers="2..3")
    trains_with(client, job, 2)
    client.update(job, workers=1)
    trains_with(client, job, 1)
    placeholder = client.attempts(job)[0]["workers"][1]
    assert placeholder["left_at"]
    until.touch()
    done = ended(client, job)
    assert (done["state"], done["attempt"], done["resizes"]) == ("succeeded", 1, 2)
    found = steps(output(client, job))
    assert [step for step, _ in found] == list(range(1, len(found) + 1)), "no step is lost, none is done again"
    sizes = [size for _, size in found]
    assert [size for at, size in enumerate(sizes) if at == 0 or size != sizes[at - 1]] == [1, 2, 1]
