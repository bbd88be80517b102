"""Several processes and threads on one database."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.spec import JobSpec
from schedulearn.store import Point, open_store

pytestmark = pytest.mark.slow

AT = 1_700_000_000.25
WRITER = """
import sys
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.spec import JobSpec
from schedulearn.store import Point, open_store

with open_store(sys.argv[1]) as store:
    name = sys.argv[2]
    for n in range(60):
        print(store.add_job(JobSpec(name, "true"), name, 0.0, str(n)))
        store.add_points(JobId(1), 1, 0, "report", [Point(2 * n + (name == "b"), 0.0, n, name, n)])
"""


def test_two_processes_write_and_a_third_follows_the_log(make, url, run_python):
    make.running()
    followed = make.store.events_after(0)
    writers = [run_python(WRITER, url, name) for name in ("a", "b")]
    while any(writer.poll() is None for writer in writers):
        followed += make.store.events_after(followed[-1].serial)
    followed += make.store.events_after(followed[-1].serial)

    ids = []
    for writer in writers:
        out, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
        ids += [int(line) for line in out.split()]
    assert len(set(ids)) == 120
    # Whoever follows by serial number misses nothing: no event appears behind one that was seen.
    assert followed == make.store.events_after(0)
    assert len(followed) == 121
    for name in ("a", "b"):
        causes = [stored.event.cause for stored in followed if stored.event.data.get("name") == name]
        assert causes == [str(n) for n in range(60)]
    assert make.store.list_jobs(name="a")[1] == 60


def test_a_later_serial_never_shows_before_an_earlier_one(make, url):
    with open_store(url) as other, ThreadPoolExecutor(1) as pool:
        with make.store._db.write() as connection:
            row = "(at, kind, cause, data) VALUES (0, 'state', 'the first', '{}')"
            connection.exec_driver_sql(f"INSERT INTO events {row}")
            later = pool.submit(other.add_job, JobSpec("x", "true"), "ann", AT, "the second")
            done, _ = wait([later], timeout=0.3)
            assert not done, "it must wait for the transaction that has the earlier serial"
        later.result(timeout=30)
    assert [stored.event.cause for stored in make.store.events_after(0)] == ["the first", "the second"]


def test_two_processes_open_a_new_database_at_once(url, run_python):
    code = "import sys; from schedulearn.store import open_store; print(open_store(sys.argv[1]).list_jobs())"
    openers = [run_python(code, url) for _ in range(3)]
    for opener in openers:
        out, errors = opener.communicate(timeout=60)
        assert out == "([], 0)\n", errors


def test_threads_share_a_store(make):
    job = make.running(workers=8)

    def work(rank: int) -> list[JobId]:
        for n in range(10):
            make.store.add_points(job.id, 1, rank, "report", [Point(n, AT, n, "loss", 1.0)])
            assert make.store.job(job.id) is not None
        return [make.store.add_job(JobSpec("x", "true"), "ann", AT, "") for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        ids = [id for some in pool.map(work, range(8)) for id in some]
    assert len(set(ids)) == 40
    assert make.store.series_of(job.id)[0].count == 10


def test_a_reader_is_not_held_up_by_a_writer_and_sees_nothing_of_it(make, url):
    with open_store(url) as other, make.store._db.write() as connection:
        connection.exec_driver_sql("INSERT INTO settings (key, value) VALUES ('half', '1')")
        assert other.setting("half") is None
        assert make.store.setting("half") is None
