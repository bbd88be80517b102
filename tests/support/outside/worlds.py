"""The variants of the world: on PostgreSQL, and with Docker Engines as servers; and what they share between seeds."""

import itertools
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from support.base_image import IMAGE
from support.docker import Daemon, Daemons
from support.outside.plan import Plan
from support.outside.users import Known
from support.outside.world import World, passes
from support.postgresql import PROGRAMS, PostgreSQL
from support.service import PATIENCE
from support.waiting import wait_until

_ENGINES = (1, 2)  # two servers
_numbers = itertools.count(1)


class Missing(Exception):
    """This machine does not have what a variant needs."""


class Ground:
    """A database server and engines, started when they are first needed, for all seeds of one run."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._server: PostgreSQL | None = None
        self._daemons: Daemons | None = None

    def world(self, root: Path, plan: Plan) -> World:
        if plan.variant == "postgresql":
            return PostgreSQLWorld(root, plan, self._postgresql())
        if plan.variant == "docker":
            return DockerWorld(root, plan, self._engines())
        return World(root, plan)

    def _postgresql(self) -> PostgreSQL:
        if PROGRAMS is None:
            raise Missing("PostgreSQL's programs are not on this machine")
        if self._server is None:
            self._server = self._open.enter_context(PostgreSQL())
        return self._server

    def _engines(self) -> list[Daemon]:
        if self._daemons is None:
            self._daemons = Daemons()
            self._open.callback(self._daemons.close)
        try:
            return [self._daemons(number) for number in _ENGINES]
        except pytest.skip.Exception as why:
            raise Missing(str(why)) from why

    def __enter__(self) -> "Ground":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


class PostgreSQLWorld(World):
    def __init__(self, root: Path, plan: Plan, server: PostgreSQL) -> None:
        self._server, self._name = server, f"seed{plan.seed}_{next(_numbers)}"
        server.execute("postgres", f"CREATE DATABASE {self._name}")
        super().__init__(root, plan)

    @property
    def database(self) -> str:
        return self._server.url(self._name)

    def _options(self) -> list[str]:
        return ["--database", self.database]

    def _restart_database(self, _: Known) -> Callable[[], None] | None:
        self._server.stop()
        self._server.start()
        return passes

    def _stop_database(self, _: Known) -> Callable[[], None] | None:
        self._server.stop()
        return self._server.start

    def _stall_database(self, _: Known) -> Callable[[], None] | None:
        self._server.stall()
        return self._server.go_on


class DockerWorld(World):
    """Two servers; the machine's own node takes no jobs."""

    def __init__(self, root: Path, plan: Plan, engines: list[Daemon]) -> None:
        self._engines = engines
        super().__init__(root, plan)

    def _options(self) -> list[str]:
        return ["--lost-after", "1h", "--allow-mounts", f"{self.diaries}:rw"]

    def open(self) -> None:
        super().open()
        with self.service.client() as client:
            wait_until(client.nodes, PATIENCE, "the machine itself is a node")
            client.drain("local")
            for number, engine in enumerate(self._engines, 1):
                client.add_node(engine.address, f"server-{number}", IMAGE)

    def left(self) -> list[str]:
        """Containers and networks of jobs; they go a moment after the end."""
        with suppress(AssertionError):
            wait_until(lambda: not self._there(), 30.0)
        return [f"{one} was left behind" for one in self._there()] + super().left()

    def close(self) -> None:
        super().close()
        for engine in self._engines:
            engine.clean()

    def _there(self) -> list[str]:
        found = []
        for engine in self._engines:
            with engine.client() as client:
                found += [f"container {one['Names'][0]}" for one in client.api.containers(all=True)]
                found += [f"network {one['Name']}" for one in client.api.networks(filters={"type": "custom"})]
        return found

    def _kill_container(self, known: Known) -> Callable[[], None] | None:
        return self._hit_container(known, lambda api, container: api.kill(container))

    def _remove_container(self, known: Known) -> Callable[[], None] | None:
        return self._hit_container(known, lambda api, container: api.remove_container(container, force=True))

    def _hit_container(self, known: Known, how: Callable[[Any, str], object]) -> Callable[[], None] | None:
        done = None
        for engine in self._engines if known.id else ():
            with suppress(Exception), engine.client(timeout=3) as client:  # it may be stopped, the container gone
                for container in client.api.containers(filters={"label": f"schedulearn.job={known.id}"}):
                    known.hits += 1
                    how(client.api, container["Id"])
                    done = passes
        return done

    def _stop_engine(self, known: Known) -> Callable[[], None] | None:
        return self._end_engine(known, Daemon.stop)

    def _kill_engine(self, known: Known) -> Callable[[], None] | None:
        return self._end_engine(known, Daemon.kill)

    def _end_engine(self, known: Known, how: Callable[[Daemon], None]) -> Callable[[], None] | None:
        engine = self._engines[known.id % len(self._engines)]
        if not engine.answers():
            return None
        how(engine)
        return engine.start  # by this thread: an engine ends with the thread that started it

    def _freeze_engine(self, known: Known) -> Callable[[], None] | None:
        engine = self._engines[known.id % len(self._engines)]
        if not engine.answers():
            return None
        engine.freeze()
        return engine.thaw
