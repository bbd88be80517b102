"""TensorFlow's threads cannot change while it runs: a new limit starts the job again, from its checkpoint."""

import importlib.util
import re

import pytest

from schedulearn.client import Client
from schedulearn.executors.process.cgroups import detect
from support.jobs import kinds, output, script, submit
from support.service import Service
from support.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"),
    pytest.mark.skipif(detect().cpu is None and detect().unified is None, reason="this machine lets us make no groups"),
]
LONG = 180.0  # seconds: TensorFlow alone takes many to import on a busy machine

# Fits a line, saves after each step, and says how many threads TensorFlow was told to have.
FITS = """
import os, time
import tensorflow as tf
from schedulearn import job
state = job.restore(default={"step": 0, "weight": 0.0})
weight = tf.Variable(state["weight"])
print("threads", os.environ["TF_NUM_INTRAOP_THREADS"], "from step", state["step"], flush=True)
inputs = tf.linspace(-1.0, 1.0, 64)
step = state["step"]
while True:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(weight * inputs - 3.0 * inputs))
    weight.assign_sub(0.01 * tape.gradient(loss, weight))
    step += 1
    job.save({"step": step, "weight": float(weight)}, step)
    job.report(step, loss=float(loss))
    print(f"step {step} loss: {float(loss):.6f}", flush=True)
    time.sleep(0.02)
"""
BEGINS = re.compile(r"threads (\d+) from step (\d+)")


def begins(client: Client, job: int, attempt: int) -> tuple[int, int]:
    """The threads and the step with which an attempt begins, once it trains."""

    def trains() -> tuple[int, int] | None:
        if client.job(job)["attempt"] < attempt:
            return None
        assert client.job(job)["state"] != "failed", output(client, job)
        said = output(client, job, attempt=attempt).decode()
        found = BEGINS.search(said)
        return (int(found[1]), int(found[2])) if found and "loss" in said else None

    return wait_until(trains, LONG, f"attempt {attempt} trains")


@pytest.mark.timeout(600)
def test_a_new_limit_starts_it_again_with_as_many_threads(client: Client, service: Service) -> None:
    if client.nodes()[0]["capacity"]["cpus"] < 2:
        pytest.skip("with one core there is one thread")
    job = submit(
        client, script(FITS, resources={"cpus": "0.5..2"}, preemptible="true", env={"TF_CPP_MIN_LOG_LEVEL": "2"})
    )
    assert begins(client, job, 1) == (2, 0)
    assert service.cli("update", str(job), "--cpus-limit", "1").returncode == 0
    threads, step = begins(client, job, 2)
    assert (threads, step > 0) == (1, True), "one thread, and it goes on from its checkpoint"
    stops = [event["cause"] for event in client.job_events(job) if event["kind"] == "stop"]
    assert stops == ["starts again with 1 thread in place of 2: they cannot change while it runs"]
    shown = client.job(job)
    assert (shown["cpus_limit"], shown["restarts"], shown["preemptions"]) == (1, 0, 0), "that is no failure"
    assert "limits_set" in kinds(client, job)
    client.delete(job)
