"""Notices from the history to people: real web requests, a real command, a clock moved by hand."""

import email
import json
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from email.policy import default
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.states import JobState
from schedulearn.service.common.auth import Caller
from schedulearn.service.notify import content, mail, webhook
from schedulearn.service.notify.content import Undelivered
from schedulearn.service.notify.notifier import DELAYS, Notifier
from schedulearn.service.notify.sender import Sender
from schedulearn.service.notify.subscriptions import Subscriptions, secret_of
from schedulearn.store import Cycle, NewNotice, Notice, Store
from schedulearn.store.notices import MOST_WAITING
from support.clock import HandClock
from support.engines import openssl
from support.receiver import Receiver, receiver
from support.service import process_state
from support.waiting import wait_until

HOOK = "https://hooks.example.org/ann"


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


class Told:
    """A store in which jobs end, and the notifier that follows it."""

    def __init__(self, store: Store, clock: HandClock, send: Callable[[Notice], None] | None = None) -> None:
        self.store, self.clock = store, clock
        store.add_user("ann", "user")
        self.fence = store.take_role("scheduler", "test", clock.now(), 30.0)
        self.sent: list[Notice] = []
        self.notifier = Notifier(store, clock, send or self.sent.append)

    def end(self, state: JobState = JobState.SUCCEEDED, cause: str = "exit code 0", **spec: Any) -> int:
        number = self.store.add_job(JobSpec("mnist", "true", **spec), "ann", self.clock.now(), "submitted")
        row = self.store.job(number)
        assert row
        row.job.state, row.job.finished_at = state, self.clock.now()
        event = HistoryEvent(self.clock.now(), str(state), cause, JobId(number), state=state)
        self.store.save_cycle(Cycle(self.fence, jobs=[row.job], events=[event]))
        return number

    def look(self) -> None:
        """One round to its end."""
        self.notifier.follow()
        self.notifier.deliver()
        wait_until(self.notifier.idle, what="what is on its way has arrived")

    @property
    def notices(self) -> list[Notice]:
        return self.store.notices_of("ann", 100)


@pytest.fixture
def told(store: Store, clock: HandClock) -> Told:
    return Told(store, clock)


# --- who is told of what


def test_whom_the_job_names_and_whom_its_user_wants_are_told_once(told: Told) -> None:
    told.store.set_addresses("ann", ["failed:mailto:ann@example.org", HOOK], [])
    told.end(notify=(HOOK, "mailto:bob@example.org"))
    told.look()
    told.look()
    assert sorted(n.address for n in told.notices) == [HOOK, "mailto:bob@example.org"]
    assert all(n.content["type"] == "job.succeeded" for n in told.notices)


@pytest.mark.parametrize(
    ("state", "cause", "addresses"),
    [
        (JobState.SUCCEEDED, "exit code 0", {"any", "good"}),
        (JobState.FAILED, "exit code 1", {"any", "bad"}),
        (JobState.CANCELLED, "cancelled by root", {"any"}),
        (JobState.CANCELLED, "cancelled by ann", set()),
    ],
)
def test_the_ends_that_are_told(told: Told, state: JobState, cause: str, addresses: set[str]) -> None:
    told.end(state, cause, notify=(f"{HOOK}/any", f"failed:{HOOK}/bad", f"succeeded:{HOOK}/good"))
    told.look()
    assert {n.address.rpartition("/")[2] for n in told.notices} == addresses


def test_nobody_is_told_of_what_was_over_before(store: Store, clock: HandClock) -> None:
    early = Told(store, clock)
    with store._db.write() as connection:
        connection.exec_driver_sql("DELETE FROM settings WHERE key = 'notices_seen'")  # as an older version leaves it
    early.end(notify=(HOOK,))
    later = Notifier(store, clock, early.sent.append)
    later.follow()
    assert early.notices == []


def test_a_service_that_died_after_the_end_tells_it_when_it_is_back(told: Told) -> None:
    told.end(notify=(HOOK,))
    again = Notifier(told.store, told.clock, told.sent.append)
    again.follow()
    Notifier(told.store, told.clock, told.sent.append).follow()  # it died once more: no second notice is made
    assert len(told.notices) == 1
    again.deliver()
    wait_until(again.idle)
    assert [n.address for n in told.sent] == [HOOK]


def test_too_many_that_wait_are_dropped_and_others_are_not_touched(told: Told) -> None:
    said = content.of_test("x", told.clock.now())
    many = [NewNotice("eve", HOOK, said)] * (MOST_WAITING + 5)
    assert told.store.add_notices([*many, NewNotice("ann", HOOK, said)], told.clock.now()) == 5
    assert len(told.notices) == 1
    assert len(told.store.notices_of("eve", 10_000)) == MOST_WAITING


def test_what_is_over_is_forgotten_after_a_week(told: Told) -> None:
    told.end(notify=(HOOK,))
    told.look()
    told.clock.pass_time(8 * 86400)
    told.store.add_notices([], told.clock.now())
    assert told.notices == []


# --- tries


def test_it_is_tried_again_later_and_later_and_then_given_up(store: Store, clock: HandClock) -> None:
    tries: list[float] = []

    def fail(_: Notice) -> None:
        tries.append(clock.now())
        raise Undelivered("nobody there")

    told = Told(store, clock, fail)
    told.end(notify=(HOOK,))
    while told.store.due_notices(float("inf"), 1) or not tries:
        told.look()
        clock.pass_time(max(600.0, (clock.now() - tries[0]) / 2))
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert len(tries) == len(DELAYS) + 1
    assert all(gap >= delay for gap, delay in zip(gaps, DELAYS, strict=True))
    assert [(n.state, n.problem, n.tries) for n in told.notices] == [("given up", "nobody there", 8)]


def test_what_cannot_be_helped_is_given_up_at_once(store: Store, clock: HandClock) -> None:
    def refuse(_: Notice) -> None:
        raise Undelivered("never", final=True)

    told = Told(store, clock, refuse)
    told.end(notify=(HOOK,))
    told.look()
    assert [(n.state, n.tries) for n in told.notices] == [("given up", 1)]


def test_one_that_is_stuck_holds_up_neither_others_nor_the_end_of_the_service(store: Store, clock: HandClock) -> None:
    stuck, free = threading.Event(), threading.Event()

    def send(notice: Notice) -> None:
        if notice.user == "ann":
            stuck.wait(60)
        else:
            free.set()

    told = Told(store, clock, send)
    said = content.of_test("x", clock.now())
    store.add_notices([NewNotice("ann", HOOK, said)] * 3 + [NewNotice("bob", HOOK, said)], clock.now())
    told.notifier.deliver()  # returns, although ann's never ends
    assert free.wait(30)
    told.notifier.deliver()
    told.notifier.close()
    assert [n.state for n in told.notices] == ["waiting"] * 3
    stuck.set()
    wait_until(told.notifier.idle)


def test_slow_receivers_of_a_few_leave_the_others_their_turn(store: Store, clock: HandClock) -> None:
    """Four users with much to send, whose receivers are slow, would have every place at any time."""
    order: list[str] = []
    told = Told(store, clock, lambda notice: order.append(notice.user))
    said = content.of_test("x", clock.now())
    store.add_notices([NewNotice(user, HOOK, said) for user in ("a", "b", "c", "d") * 3], clock.now())
    told.look()
    clock.pass_time(1)
    store.add_notices([NewNotice("ann", HOOK, said)], clock.now())
    told.look()
    assert "ann" in order[4:8]
    told.look()
    told.look()
    assert sorted(order) == sorted(["ann", *("a", "b", "c", "d") * 3])


def test_a_fault_of_ours_holds_up_nothing_and_ends(store: Store, clock: HandClock) -> None:
    sent: list[int] = []

    def send(notice: Notice) -> None:
        if notice.serial == 1:
            raise KeyError("secret")
        sent.append(notice.serial)

    told = Told(store, clock, send)
    said = content.of_test("x", clock.now())
    store.add_notices([NewNotice("ann", HOOK, said)] * 2, clock.now())
    told.look()
    told.look()
    assert sent == [2]
    assert [(n.serial, n.state, n.problem) for n in told.notices[1:]] == [
        (1, "waiting", "an error in the service: KeyError")
    ]


# --- webhooks


def posted(hook: Receiver, path: str = "/x", timeout: float = 30.0, **more: Any) -> str:
    """The secret that it was signed with."""
    secret = webhook.new_secret()
    said = content.of_test("ann", 1000.0)
    webhook.post(hook.url + path, said, secret, 1234.5, public_only=more.get("public_only", False), timeout=timeout)
    return secret


def test_a_webhook_is_signed_and_dated(hook: Receiver) -> None:
    secret = posted(hook, "/x?y=1")
    (got,) = hook.got
    assert got.path == "/x?y=1"
    assert got.signed_with(secret)
    assert not got.signed_with(webhook.new_secret())
    assert got.headers["webhook-timestamp"] == "1234"
    assert got.headers["content-type"] == "application/json"
    assert got.body["type"] == "test"


def test_the_signature_is_that_of_the_standard() -> None:
    """The example of the standard's own documentation."""
    secret, id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    signed = webhook.sign(secret, id, 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("status", [302, 404, 500])
def test_any_answer_but_success_is_a_failure_and_no_redirect_is_followed(hook: Receiver, status: int) -> None:
    hook.answers = [status]
    with pytest.raises(Undelivered, match=str(status)) as error:
        posted(hook)
    assert not error.value.final
    assert len(hook.got) == 1


def test_who_says_gone_is_not_asked_again(hook: Receiver) -> None:
    hook.answers = [410]
    with pytest.raises(Undelivered) as error:
        posted(hook)
    assert error.value.final


def test_a_name_that_leads_into_a_private_network_is_not_called(hook: Receiver) -> None:
    with pytest.raises(Undelivered, match="private network") as error:
        posted(hook, public_only=True)
    assert error.value.final
    assert hook.got == []


def test_a_name_that_leads_to_both_networks_is_not_called(hook: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could be asked again and again until the private one comes first."""
    port = int(hook.url.rpartition(":")[2])
    places = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)) for host in ("127.0.0.1", "8.8.8.8")]
    monkeypatch.setattr(webhook.socket, "getaddrinfo", lambda *_, **__: places)
    with pytest.raises(Undelivered, match="private network"):
        posted(hook, public_only=True)
    assert hook.got == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True),
        ("127.0.0.1", False), ("10.1.2.3", False), ("172.16.0.1", False), ("192.168.1.1", False), ("0.0.0.0", False),
        ("169.254.169.254", False), ("100.64.0.1", False), ("224.0.0.1", False), ("::1", False), ("::", False),
        ("fe80::1%lo", False), ("fd00::1", False), ("::ffff:127.0.0.1", False), ("::ffff:8.8.8.8", True),
        ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False), ("2001:0:7f00:1::", False), ("ff02::1", False),
    ],
)  # fmt: skip
def test_what_a_public_address_is(address: str, public: bool) -> None:
    assert webhook.is_public(address) is public


def test_a_receiver_that_drips_is_cut_off() -> None:
    """Each byte comes in time; all of them never do."""
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            try:
                while not over.wait(0.05):
                    connection.sendall(b"x")
            except OSError:
                pass  # cut off

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
            said = content.of_test("ann", 0.0)
            with pytest.raises(Undelivered, match="no answer within"):
                webhook.post(url, said, webhook.new_secret(), 0.0, public_only=False, timeout=0.5)
        finally:
            over.set()
            thread.join()


def test_a_name_with_many_addresses_gets_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waited = [0.0], []

    class Hanging(socket.socket):
        def connect(self, _: Any) -> None:
            waited.append(self.gettimeout())
            now[0] += self.gettimeout() or 0.0
            raise TimeoutError

    places = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (f"192.0.2.{n}", 443)) for n in range(100)]
    monkeypatch.setattr(webhook.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(webhook.socket, "getaddrinfo", lambda *_, **__: places)
    monkeypatch.setattr(webhook.socket, "socket", Hanging)
    said = content.of_test("ann", 0.0)
    with pytest.raises(Undelivered, match="no answer within 10 s"):
        webhook.post("https://h.example/", said, webhook.new_secret(), 0.0, public_only=False, timeout=10.0)
    assert sum(waited) == 10.0


def test_the_words_of_what_is_no_web_server_are_not_shown() -> None:
    def speak(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"SSH-2.0-secret\r\n")
            connection.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=speak, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(Undelivered) as error:
            webhook.post(url, content.of_test("a", 0.0), webhook.new_secret(), 0.0, public_only=False, timeout=30.0)
        thread.join()
    assert str(error.value) == "the answer was not that of a web server"


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on this machine")
def test_only_a_certificate_that_is_trusted_is_good_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    openssl(
        tmp_path, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *name, "-keyout", key, "-out", cert
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with receiver(context) as hook:
        with pytest.raises(Undelivered, match="its certificate is not trusted"):
            posted(hook)
        assert hook.got == []
        monkeypatch.setenv("SSL_CERT_FILE", cert)
        posted(hook)
        assert len(hook.got) == 1


def test_nobody_listens(hook: Receiver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(Undelivered, match="cannot be reached"):
        webhook.post(f"http://127.0.0.1:{port}/", content.of_test("ann", 0.0), webhook.new_secret(), 0.0,
                     public_only=False, timeout=5.0)  # fmt: skip


# --- e-mails


def mailed(command: str, timeout: float = 60.0, **data: Any) -> None:
    said = content.of_test("ann", 1000.0)
    if data:
        said["data"] = {**said["data"], **data}
    mail.send(command, "ann@example.org", said, 1000.0, timeout)


def test_the_command_gets_the_message_on_its_input(tmp_path: Path) -> None:
    took = tmp_path / "message"
    mailed(f"tee {took}")
    message = email.message_from_bytes(took.read_bytes(), policy=default)
    assert message["To"] == "ann@example.org"
    assert message["Subject"] == "Schedulearn: a test"
    assert message["Auto-Submitted"] == "auto-generated"
    assert "asked for by ann" in message.get_content()


def test_a_job_s_name_cannot_add_a_header(told: Told) -> None:
    number = told.end(JobState.FAILED, "exit code 1")
    row = told.store.job(JobId(number))
    assert row
    event = HistoryEvent(0.0, "fail", "exit code 1", JobId(number), state=JobState.FAILED)
    said = content.of_end(row, event, "http://lab:7311")
    said["data"]["name"] = "x\nBcc: eve@example.org ü" + "y" * 300
    message = email.message_from_bytes(mail.message("ann@example.org", said, 0.0), policy=default)
    assert message["Bcc"] is None
    assert message["Subject"].startswith("Schedulearn: job 1 (x Bcc: eve@example.org üyy")
    assert "schedulearn logs 1" in message.get_content()


def test_no_shell_has_a_part_in_it(tmp_path: Path) -> None:
    mailed(f"tee {tmp_path}/a;touch {tmp_path}/b")
    assert {p.name for p in tmp_path.iterdir()} == {"a;touch", "b"}  # two files that tee wrote, and no command `touch`
    assert (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("sh -c 'echo no such mailbox >&2; exit 67'", "ended with 67: no such mailbox"),
        ("/nowhere/sendmail", "cannot be run"),
        ("sh -c 'exec 0<&-; exit 1'", "ended with 1"),
    ],
)
def test_a_command_that_fails(command: str, problem: str) -> None:
    with pytest.raises(Undelivered, match=problem):
        mailed(command)


def test_a_command_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    for timeout in (1.0, 10.0, 60.0):  # one that has not even begun when its time is over tells nothing
        with pytest.raises(Undelivered, match="did not end"):
            mailed(f"sh -c 'sleep 1000 & echo $! > {pid}; wait'", timeout=timeout)
        if pid.exists() and pid.read_text():
            break
    child = int(pid.read_text())
    wait_until(lambda: process_state(child) in ("", "Z"), what="it is dead")


# --- the last look before sending


def send(store: Store, clock: HandClock, address: str, rules: list[str], user: str = "ann", command: str = "") -> None:
    said = content.of_test(user, clock.now())
    notice = Notice(1, user, address, said, clock.now(), "waiting", 0, clock.now(), "")
    Sender(store, clock.now, rules, command)(notice)


def test_what_is_not_allowed_any_more_is_not_sent(told: Told, hook: Receiver) -> None:
    with pytest.raises(Undelivered, match="not allowed") as error:
        send(told.store, told.clock, f"{hook.url}/x", ["https://hooks.example.org"])
    assert error.value.final
    assert hook.got == []


def test_the_three_ways_to_be_allowed(told: Told, hook: Receiver) -> None:
    told.store.add_user("root", "admin")
    told.store.set_addresses("ann", [], [f"failed:{hook.url}/given"])
    send(told.store, told.clock, f"{hook.url}/rule", [hook.url])
    send(told.store, told.clock, f"{hook.url}/given", [])
    send(told.store, told.clock, f"{hook.url}/admin", [], user="root")
    assert [got.path for got in hook.got] == ["/rule", "/given", "/admin"]
    assert hook.got[0].signed_with(secret_of(told.store, "ann"))
    assert hook.got[2].signed_with(secret_of(told.store, "root"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_what_anybody_may_name_leads_to_no_private_network(told: Told, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        url = f"https://{host}:{listening.getsockname()[1]}/x"
        with pytest.raises(Undelivered, match="private network") as error:
            send(told.store, told.clock, url, ["public"])
        assert error.value.final
        with pytest.raises(BlockingIOError):
            listening.accept()  # nobody has knocked


def test_without_a_command_no_e_mail_is_sent(told: Told) -> None:
    with pytest.raises(Undelivered, match="--mail-command"):
        send(told.store, told.clock, "mailto:ann@example.org", ["@example.org"])


def test_a_secret_stays_until_another_is_asked_for(store: Store) -> None:
    first = secret_of(store, "ann")
    assert secret_of(store, "ann") == first
    store.set_addresses("ann", [HOOK], [])
    assert secret_of(store, "ann") == first
    assert secret_of(store, "ann", new=True) != first
    assert store.subscription("ann").addresses == (HOOK,)


def test_what_a_notice_says_can_be_read_by_a_program(told: Told) -> None:
    number = told.end(JobState.FAILED, "exit code 3", notify=(HOOK,))
    told.look()
    said = json.loads(json.dumps(told.sent[0].content, allow_nan=False))
    assert said["type"] == "job.failed"
    assert said["text"] == f"job {number} (mnist) has failed after 0 s: exit code 3"
    assert {"job": number, "name": "mnist", "user": "ann", "state": "failed", "cause": "exit code 3"}.items() <= said[
        "data"
    ].items()


def test_a_test_goes_to_every_address_of_the_user(told: Told) -> None:
    told.store.set_addresses("ann", [HOOK, f"failed:{HOOK}", "mailto:ann@example.org"], [])
    assert Subscriptions(told.store, told.clock.now).test(Caller("ann", "user")) == 2
    assert sorted(n.address for n in told.notices) == [HOOK, "mailto:ann@example.org"]
