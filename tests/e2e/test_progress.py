"""Progress of programs that know nothing of Schedulearn, and what is learned from it of how they scale."""

from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import Client
from schedulearn.store import open_store
from support.installed import needs
from support.jobs import ended, in_state, script, submit, until
from support.jobs import spec as job_spec
from support.service import PATIENCE, Service
from support.waiting import wait_until

# Writes event files as torch does, with the standard library alone; one more record for each file that the test makes.
WRITES_EVENTS = """
import os, struct, sys, time
def crc(data):
    c = 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    c ^= 0xFFFFFFFF
    return struct.pack("<I", ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF)
def record(step, tag, value):
    value = b"\\x0a" + bytes([len(tag)]) + tag + b"\\x15" + struct.pack("<f", value)
    summary = b"\\x0a" + bytes([len(value)]) + value
    data = b"\\x09" + struct.pack("<d", time.time()) + b"\\x10" + bytes([step])
    data += b"\\x2a" + bytes([len(summary)]) + summary
    length = struct.pack("<Q", len(data))
    return length + crc(length) + data + crc(data)
os.makedirs("runs/one")
with open("runs/one/events.out.tfevents.1.host", "wb", buffering=0) as file:
    for step in (1, 2):
        data = record(step, b"train/acc", step / 4)
        file.write(data[:20])  # half of a record
        file.write(data[20:])
        while not os.path.exists(os.environ["GATE"] + str(step)):
            time.sleep(0.02)
    file.write(record(3, b"train/acc", 0.75))
"""

# A bar of Keras that goes on and on in one line.
DRAWS_A_BAR = """
import os, sys, time
print("Epoch 1/2\\n 50/50 [====] - loss: 0.9\\nEpoch 2/2", flush=True)
batch = 0
while not os.path.exists(os.environ["GATE"]):
    batch = min(batch + 1, 49)
    bar = f"{batch}/50 [=====>....] - ETA: 1s - loss: 0.25 - val_loss: 9"
    sys.stdout.write("\\r" + bar + "\\b" * len(bar))
    sys.stdout.flush()
    time.sleep(0.05)
"""

TENSORFLOW = """
import os, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
writer = tf.summary.create_file_writer("logs")
metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})
with writer.as_default():
    for step in range(5):
        tf.summary.write("epoch_loss", tf.constant(1.0 / (1 + step)), step=step, metadata=metadata)
writer.flush()
while not os.path.exists(os.environ["GATE"]):
    time.sleep(0.05)
"""


def progress(client: Client, job: int, step: int, patience: float = PATIENCE) -> Any:
    """What is shown once it has come to this step."""

    def look() -> Any:
        shown = client.job(job)["progress"]
        return shown if shown and shown["step"] >= step else None

    return wait_until(look, patience, f"job {job} has come to step {step}")


def test_event_files_are_read_while_they_grow(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    metric = {"name": "accuracy", "goal": "max"}
    job = submit(client, script(WRITES_EVENTS, metric=metric, env={"GATE": str(gate)}))
    assert progress(client, job, 1)["value"] == 0.25
    gate.with_name("gate1").touch()
    assert progress(client, job, 2)["value"] == 0.5
    gate.with_name("gate2").touch()
    assert ended(client, job)["state"] == "succeeded"
    assert client.job(job)["progress"]["step"] == 3, "what it wrote last is there when it has ended"
    assert [point[1] for point in client.metrics(job)[0]["points"]] == [0.25, 0.5, 0.75]


def test_a_bar_is_read_while_its_line_grows(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = submit(client, script(DRAWS_A_BAR, env={"GATE": str(gate)}))
    shown = progress(client, job, 52)
    assert (shown["metric"], shown["value"]) == ("loss", 0.25)
    assert shown["step"] < 100
    gate.touch()
    assert ended(client, job)["state"] == "succeeded"


def test_event_files_of_tensorflow(client: Client, tmp_path: Path) -> None:
    needs("tensorflow")
    gate = tmp_path / "gate"
    job = submit(client, script(TENSORFLOW, env={"GATE": str(gate)}))
    assert progress(client, job, 4, 4 * PATIENCE)["value"] == pytest.approx(0.2), "its import takes a while"
    gate.touch()
    assert ended(client, job)["state"] == "succeeded"


# Steps whose time does, or does not, depend on how many workers there are.
STEPS = """
import os, pathlib, signal, sys, time
saved = pathlib.Path(os.environ["SCHEDULEARN_CHECKPOINT_DIR"], "step")
step = int(saved.read_text()) if saved.exists() else 0
size = int(os.environ["WORLD_SIZE"])
def stop(*_):
    if os.environ["RANK"] == "0":
        saved.write_text(str(step))
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
while not os.path.exists(os.environ["GATE"]):
    time.sleep(0.2 / size if os.environ["SCALES"] == "yes" else 0.2)
    step += 1
    print(f"step {step} loss 1.0", flush=True)
"""


def trains(client: Client, gate: Path, name: str, cpus: float) -> int:
    env = {"GATE": str(gate), "SCALES": "yes" if name == "steep" else "no"}
    job = script(STEPS, name=name, workers="1..2", preemptible="true", resources={"cpus": cpus}, env=env)
    return submit(client, job)


def test_what_was_measured_decides_who_grows(client: Client, service: Service, tmp_path: Path) -> None:
    """Three places: the first job has two of them until a third job comes, and did not need both, as is known then."""
    gate, later = tmp_path / "gate", tmp_path / "later"
    client.set_policy("afs-l")
    cpus = int(client.nodes()[0]["capacity"]["cpus"] / 3 * 100) / 100

    def sizes(job: int) -> set[int]:
        with open_store(service.data / "schedulearn.db") as store:
            return {one[3] for one in store.setting("step_times", ()) if one[0] == job}

    flat = trains(client, gate, "flat", cpus)
    in_state(client, flat, "running")
    steep = trains(client, gate, "steep", cpus)
    in_state(client, steep, "running")
    assert (client.job(flat)["workers"], client.job(steep)["workers"]) == (2, 1)
    wait_until(lambda: sizes(flat) == {2} and sizes(steep) == {1}, PATIENCE, "both were measured")
    other = submit(client, job_spec(until(later), resources={"cpus": cpus}))
    in_state(client, other, "running")
    wait_until(lambda: sizes(flat) == {1, 2}, PATIENCE, "the first was measured with one worker")
    assert client.job(flat)["speedup"]["value"] == pytest.approx(1.0, abs=0.3)
    later.touch()
    ended(client, other)
    wait_until(lambda: client.job(steep)["workers"] == 2, PATIENCE, "the other one grows")
    in_state(client, steep, "running")
    assert client.job(flat)["workers"] == 1
    assert client.job(flat)["attempt"] == 2
    gate.touch()
    for job in (flat, steep):
        assert ended(client, job)["state"] == "succeeded"
