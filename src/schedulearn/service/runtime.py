"""The service put together: which parts there are, and in which order they start and stop."""

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from schedulearn.core.domain.events import Event
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.executors.common.folders import has_files
from schedulearn.executors.common.paths import JobPaths, WorkerPaths, locked, write_json
from schedulearn.executors.fleet import Fleet
from schedulearn.executors.process.view import detect_mounts
from schedulearn.service.common.auth import hash_token, new_token
from schedulearn.service.common.clock import keep, resumed
from schedulearn.service.common.config import Options
from schedulearn.service.common.identity import Identities
from schedulearn.service.common.roles import RoleLock, SchedulerLease
from schedulearn.service.common.uid_claims import claimed
from schedulearn.service.exec.server import ExecServer
from schedulearn.service.gateway.explainer import Explainer
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.service.learn.monitor import Monitor
from schedulearn.service.loop.launch import Launcher
from schedulearn.service.loop.nudge import NudgeListener, is_orphaned, nudge
from schedulearn.service.loop.scheduler import Scheduler
from schedulearn.service.nodes.node_manager import ISOLATION, NodeManager
from schedulearn.service.notify import subscriptions
from schedulearn.service.notify.notifier import Notifier
from schedulearn.service.notify.sender import Sender
from schedulearn.service.progress.progress import ProgressWatcher
from schedulearn.service.upkeep.disk import DiskGuard, Reserve, Sizes
from schedulearn.service.upkeep.housekeeping import Housekeeper, Storage, measure
from schedulearn.service.upkeep.lineage import settle
from schedulearn.store import open_store

_LOG = logging.getLogger(__name__)
_PATIENCE = 5.0  # seconds for which a request waits until the database can be used; then its caller is told


class Runtime:
    """The parts that the roles of this process need. Use it as a context manager; running jobs survive its end."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = options.folder
        self.clock = resumed(self.folder.clock)
        self._stack = ExitStack()
        self._scheduler: Scheduler | None = None
        self._thread: threading.Thread | None = None
        self.warnings: list[str] = []  # what an administrator must know when the scheduler starts

    def __enter__(self) -> "Runtime":
        with ExitStack() as undo:
            undo.callback(self._stack.close)
            self._open()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        make_data_folder(self.folder.root)
        if "scheduler" in self.options.roles:
            Reserve(self.folder).release_if_full()  # else a full disk might keep the database from being opened
        for role in sorted(self.options.roles):
            self._stack.enter_context(RoleLock(self.folder, role))
        self.store = open_store(self.options.database or self.folder.database)
        self._stack.callback(self.store.close)
        with self._alone():
            settle(self.store, self.folder, shared=self.options.database is not None, accept=self.options.accept_data)
        self.first_token = self._first_start()

    def _first_start(self) -> str | None:
        """The first administrator and its token; None if there is one already.

        The store comes last: after a kill on the way it begins anew, and no administrator is locked out.
        """
        with self._alone():  # API and scheduler may be started at the same time
            if self.store.tokens() and not self._drop_damaged_client_file():
                return None
            token = new_token()
            self._tell_clients({"token": token})
            if not self.store.user("admin"):
                self.store.add_user("admin", "admin")
            self.store.add_token("admin", "first start", hash_token(token), self.clock.now())
            return token

    def publish(self, url: str, for_jobs: str = "") -> None:
        """Write down where the API answers, for the command line of this machine and for jobs."""
        self.store.set_setting("url", for_jobs or url)
        with self._alone():
            self._tell_clients({"url": url})

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time on this data folder."""
        with locked(self.folder.start_lock):
            yield

    def _tell_clients(self, values: dict[str, str]) -> None:
        """Add to the file that lets the command line on this machine just work. It holds a secret."""
        path = self.folder.client_file
        known = _read(path) or {}
        write_json(path, {**known, **values}, 0o600)

    def _drop_damaged_client_file(self) -> bool:
        """Without it this machine's command line could not be used, and the token in the file is known nowhere else."""
        path = self.folder.client_file
        if not path.exists() or _read(path) is not None:
            return False
        _LOG.warning("%s is damaged: there is a new one, with a new token of the administrator", path)
        path.unlink()
        return True

    # --- the scheduler

    def start_scheduler(self, on_end: Callable[[], None]) -> None:
        """Start the scheduler's thread; `on_end` is called should it ever end by itself."""
        identities = self._identities()
        keep(self.clock, self.folder.clock)
        lease = SchedulerLease(self.store, self.clock, self.folder.root, partial(keep, self.clock, self.folder.clock))
        lease.take(shared_database=self.options.database is not None)
        self._stack.callback(lease.release)
        progress = ProgressWatcher(self.store, self._worker_folder, self.clock, self._job_folders)
        node_manager = NodeManager(self.folder, self.options, self.clock, self._post)
        node_manager.check_local({node.name for node in self.store.list_nodes()})
        self.store.set_setting(ISOLATION, node_manager.isolation(identities.own_users))
        self._stack.callback(node_manager.close)
        self.store.set_setting("allow_mounts", list(self.options.allow_mounts))
        self.store.set_setting("regrow_after", self.options.regrow_after)
        notifier = self._notifier()
        self._scheduler = Scheduler(
            self.store,
            node_manager.fleet,
            self.clock,
            lease,
            Launcher(self.store, self.folder, identities),
            progress,
            node_manager,
            self.options.lost_after,
            self.options.regrow_after,
        )
        self._thread = threading.Thread(target=self._run, args=(self._scheduler, on_end), name="scheduler")
        self._thread.start()
        self._stack.callback(self._stop_scheduler)
        self._start_helpers(progress, node_manager.fleet, self._scheduler, notifier)

    def _identities(self) -> Identities:
        """Decide which accounts jobs run as here, and tell it to the API."""
        options = self.options
        known = Identities.here(options.uids, options.root_jobs, options.executor != "docker")
        users = self.store.users()
        known.check_all(users)
        known.tell(self.store)
        self.warnings = known.warnings(users)
        if known.own_users:
            self.warnings += self._stack.enter_context(claimed(*options.uids, self.folder.root))
        return known

    def _notifier(self) -> Notifier:
        """Made before the scheduler begins, so that it misses no end."""
        rules, command = self.options.allow_notify, self.options.mail_command
        self.store.set_setting(subscriptions.RULES, list(rules))
        self.store.set_setting(subscriptions.MAIL, bool(command))
        return Notifier(self.store, self.clock, Sender(self.store, self.clock.now, rules, command))

    def _start_helpers(self, progress: ProgressWatcher, fleet: Fleet, scheduler: Scheduler, notifier: Notifier) -> None:
        options = self.options
        guard = DiskGuard(self.store, self.folder, self.clock, scheduler.post, options.caps.job_disk)
        housekeeper = Housekeeper(
            self.store,
            self.folder,
            self.clock,
            options.keep_seconds,
            options.keep_bytes,
            options.keep_audit,
            guard.measured,
        )
        listener = NudgeListener(self.folder.nudge_socket, scheduler.wake)
        exec_server = ExecServer(self.folder.beside_socket, fleet.exec_of)
        for part in (progress, Monitor(self.store, fleet), guard, housekeeper, listener, exec_server, notifier):
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

    def _has_checkpoint(self, job: JobId) -> bool:
        return has_files(JobPaths.of(self.folder.root, job).checkpoint)

    # --- the API

    def gateway(self) -> Gateway:
        store = self.store.hurried(_PATIENCE)
        explainer = Explainer(store, self.clock, self._has_checkpoint)
        gateway = Gateway(
            store,
            self.folder.root,
            self._wake,
            explainer.explain,
            waiting=explainer.waiting,
            scheduler_seen=lambda: store.role_seen("scheduler"),
            scheduler_lives=self._scheduler_lives,
            roles=sorted(self.options.roles),
            has_checkpoint=self._has_checkpoint,
            caps=self.options.caps,
            clock=self.clock.now,
        )
        self._stack.callback(gateway.studies.close)
        return gateway

    def _scheduler_lives(self) -> bool | None:
        """Of our own we know; of another process on this data folder at least when it has died without a word."""
        if self._thread:
            return self._thread.is_alive()
        with_this_folder = self.options.database is None
        return False if with_this_folder and is_orphaned(self.folder.nudge_socket) else None

    def storage(self) -> Storage:
        return measure(self.folder, Sizes(self.folder).all(()).values())

    def _wake(self) -> None:
        if self._scheduler:
            self._scheduler.wake()
        else:
            nudge(self.folder.nudge_socket)


def _read(path: Path) -> dict[str, str] | None:
    """None: it is not there, or damaged."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) else None


def make_data_folder(root: Path) -> None:
    """Closed to other users; but where jobs run as other users and see all mounts, they must get through to theirs."""
    pass_through = os.geteuid() == 0 and not detect_mounts().possible
    root.mkdir(parents=True, exist_ok=True, mode=0o700)  # one that is there keeps its mode
    if pass_through:
        root.chmod(root.stat().st_mode & 0o7777 | 0o011)
