"""The service put together: which parts there are, and in which order they start and stop."""

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from schedulearn.domain.events import Event
from schedulearn.domain.ids import JobId, WorkerId
from schedulearn.executors.common.paths import JobPaths, WorkerPaths
from schedulearn.executors.fleet import Fleet
from schedulearn.service.attendant import Attendant
from schedulearn.service.auth import hash_token, new_token
from schedulearn.service.clock import SteadyClock
from schedulearn.service.config import Options
from schedulearn.service.explainer import Explainer
from schedulearn.service.gateway import Gateway
from schedulearn.service.housekeeping import Housekeeper, Storage, measure
from schedulearn.service.keeper import NodeKeeper
from schedulearn.service.launch import Launcher
from schedulearn.service.monitor import Monitor
from schedulearn.service.notify import desk
from schedulearn.service.notify.notifier import Notifier
from schedulearn.service.notify.sender import Sender
from schedulearn.service.nudge import NudgeListener, nudge
from schedulearn.service.progress import ProgressWatcher
from schedulearn.service.roles import RoleLock, SchedulerLease
from schedulearn.service.scheduler import Scheduler
from schedulearn.service.views import BuiltInPolicies
from schedulearn.store import open_store

_LOG = logging.getLogger(__name__)


class Runtime:
    """The parts that the roles of this process need. Use it as a context manager; running jobs survive its end."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = options.folder
        self.clock = SteadyClock()
        self._stack = ExitStack()
        self._scheduler: Scheduler | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Runtime":
        with ExitStack() as undo:
            undo.callback(self._stack.close)
            self._open()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        # Jobs that run as their own users must get through to their folders; what is secret has a mode of its own.
        self.folder.root.mkdir(parents=True, exist_ok=True, mode=0o711)
        for role in sorted(self.options.roles):
            lock = RoleLock(self.folder, role)
            lock.acquire()
            self._stack.callback(lock.release)
        self.store = open_store(self.options.database or self.folder.database)
        self._stack.callback(self.store.close)
        self.first_token = self._first_start()

    def _first_start(self) -> str | None:
        """The first administrator and its token; None if there is one already.

        The store comes last: whoever is killed on the way begins anew, and nobody is locked out.
        """
        with self._alone():  # API and scheduler may be started at the same time
            if self.store.tokens():
                return None
            token = new_token()
            self._tell_clients({"token": token})
            if not self.store.user("admin"):
                self.store.add_user("admin", "admin")
            self.store.add_token("admin", "first start", hash_token(token), self.clock.now())
            return token

    def publish(self, url: str) -> None:
        """Write down where the API answers, for jobs and for the command line of this machine."""
        self.store.set_setting("url", self.options.url or url)
        with self._alone():
            self._tell_clients({"url": url})

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time on this data folder."""
        handle = os.open(self.folder.root, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _tell_clients(self, values: dict[str, str]) -> None:
        """Add to the file that lets the command line on this machine just work. It holds a secret."""
        path = self.folder.client_file
        known = json.loads(path.read_text()) if path.exists() else {}
        temporary = path.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump({**known, **values}, file)
        temporary.replace(path)

    # --- the scheduler

    def start_scheduler(self, on_end: Callable[[], None]) -> None:
        """Start the scheduler's thread; `on_end` is called should it ever end by itself."""
        lease = SchedulerLease(self.store, self.clock, self.folder.root)
        lease.take(shared_database=self.options.database is not None)
        self._stack.callback(lease.release)
        progress = ProgressWatcher(self.store, self._worker_folder, self.clock, self._job_folders)
        keeper = NodeKeeper(self.folder, self.options, self.clock, self._post)
        keeper.check_local({node.name for node in self.store.list_nodes()})
        self._stack.callback(keeper.close)
        self.store.set_setting("allow_mounts", list(self.options.allow_mounts))
        self.store.set_setting("regrow_after", self.options.regrow_after)
        notifier = self._notifier()
        self._scheduler = Scheduler(
            self.store,
            keeper.fleet,
            self.clock,
            lease,
            Launcher(self.store, self.folder),
            progress,
            keeper,
            self.options.lost_after,
            self.options.regrow_after,
        )
        self._thread = threading.Thread(target=self._run, args=(self._scheduler, on_end), name="scheduler")
        self._thread.start()
        self._stack.callback(self._stop_scheduler)
        self._start_helpers(progress, keeper.fleet, self._scheduler, notifier)

    def _notifier(self) -> Notifier:
        """Made before the scheduler begins, so that it misses no end."""
        rules, command = self.options.allow_notify, self.options.mail_command
        self.store.set_setting(desk.RULES, list(rules))
        self.store.set_setting(desk.MAIL, bool(command))
        return Notifier(self.store, self.clock, Sender(self.store, self.clock.now, rules, command))

    def _start_helpers(self, progress: ProgressWatcher, fleet: Fleet, scheduler: Scheduler, notifier: Notifier) -> None:
        options = self.options
        housekeeper = Housekeeper(self.store, self.folder, self.clock, options.keep_seconds, options.keep_bytes)
        listener = NudgeListener(self.folder.nudge_socket, scheduler.wake)
        attendant = Attendant(self.folder.beside_socket, fleet.beside)
        for part in (progress, Monitor(self.store, fleet), housekeeper, listener, attendant, notifier):
            part.start()
            self._stack.callback(part.close)

    def _run(self, scheduler: Scheduler, on_end: Callable[[], None]) -> None:
        try:
            scheduler.run()
        except Exception:
            _LOG.critical("the scheduler has ended", exc_info=True)
            on_end()

    def _stop_scheduler(self) -> None:
        if self._scheduler and self._thread:
            self._scheduler.stop()
            self._thread.join()

    def _post(self, event: Event) -> None:
        assert self._scheduler, "the executor has nothing to say before the scheduler has told it anything"
        self._scheduler.post(event)

    def _worker_folder(self, worker: WorkerId) -> Path:
        return WorkerPaths.of(self.folder.root, worker).folder

    def _job_folders(self, job: JobId) -> tuple[Path, Path]:
        """Where it may write files."""
        paths = JobPaths.of(self.folder.root, job)
        return paths.run, paths.checkpoint

    # --- the API

    def gateway(self) -> Gateway:
        explainer = Explainer(self.store, self.clock)
        gateway = Gateway(
            self.store,
            self.folder.root,
            self._wake,
            explainer.explain,
            BuiltInPolicies(),
            waiting=explainer.waiting,
            scheduler_seen=lambda: self.store.role_seen("scheduler"),
            roles=sorted(self.options.roles),
            clock=self.clock.now,
        )
        self._stack.callback(gateway.studies.close)
        return gateway

    def storage(self) -> Storage:
        return measure(self.folder)

    def _wake(self) -> None:
        if self._scheduler:
            self._scheduler.wake()
        else:
            nudge(self.folder.nudge_socket)
