"""The client against a small real service: what it asks, what it makes of the answers, and what it survives."""

import hashlib
import io
import json
import os
import select
import shutil
import ssl
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import (
    STDERR,
    STDOUT,
    ApiError,
    Client,
    ClientError,
    MaybeSubmitted,
    MissingVariable,
    NoAnswer,
    NoSuchJob,
    ServiceUnreachable,
    SnapshotError,
    WaitTimeout,
)
from schedulearn.client.settings import find_service
from schedulearn.client.streams import surely
from schedulearn.client.transport import Transport

Serve = Callable[[Callable[[Any, Any], None]], Any]


def job(state: str = "running", **more: Any) -> dict[str, Any]:
    return {"id": 17, "state": state, "attempt": 1, **more}


def not_found(handler: Any, detail: str = "there is no job 17") -> None:
    handler.reply({"title": "Not found", "status": 404, "detail": detail}, 404, "application/problem+json")


class TestCalls:
    def test_calls_share_one_connection_and_carry_the_token(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply({"status": "ok"}))
        with Client(service.url, "sl_secret") as client:
            for _ in range(5):
                assert client.health()["status"] == "ok"
        assert service.connections == 1
        assert service.requests[0].headers["Authorization"] == "Bearer sl_secret"
        assert service.requests[0].path == "/health"

    def test_a_path_in_the_address_is_kept(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply({}))
        with Client(service.url + "/lab/", "t") as client:
            client.whoami()
        assert service.requests[0].path == "/lab/api/v1/whoami"

    def test_lists_are_asked_for_with_filters(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply({"jobs": [job()], "total": 1}))
        with Client(service.url, "t") as client:
            assert client.jobs(["running", "queued"], user="ann", limit=5)["total"] == 1
        assert service.requests[0].query == {"state": ["queued", "running"], "user": ["ann"], "limit": ["5"]}

    def test_only_named_fields_are_changed(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply(job()))
        with Client(service.url, "t") as client:
            client.update(17, priority=80, deadline=None)
        assert service.requests[0].method == "PATCH"
        assert service.requests[0].json() == {"priority": 80, "deadline": None}

    def test_every_verb_goes_where_it_should(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply(job()))
        with Client(service.url, "t") as client:
            client.cancel(17)
            client.pause(17)
            client.resume(17)
            client.delete(17)
            client.drain("gpu 1/x")
            client.add_node("ssh://gpu2", labels={"room": "b12"})
            client.label_node("gpu2", {"room": None})
            client.remove_node("gpu2", force=True)
            client.set_policy("fifo", params={"a": 1})
            client.add_user("ann", uid=1000)
            client.update_user("ann", role="admin")
            client.remove_user("ann")
            client.add_token("laptop")
            client.revoke_token(3)
        assert [f"{r.method} {r.path}" for r in service.requests] == [
            "POST /jobs/17/cancel",
            "POST /jobs/17/pause",
            "POST /jobs/17/resume",
            "DELETE /jobs/17",
            "PATCH /nodes/gpu%201%2Fx",
            "POST /nodes",
            "PATCH /nodes/gpu2",
            "DELETE /nodes/gpu2",
            "PUT /policy",
            "POST /users",
            "PATCH /users/ann",
            "DELETE /users/ann",
            "POST /tokens",
            "DELETE /tokens/3",
        ]
        bodies = {f"{r.method} {r.path}": r for r in service.requests}
        assert bodies["POST /nodes"].json() == {"address": "ssh://gpu2", "labels": {"room": "b12"}}
        assert bodies["PATCH /nodes/gpu2"].json() == {"labels": {"room": None}}
        assert bodies["DELETE /nodes/gpu2"].query == {"force": ["true"]}
        assert bodies["PUT /policy"].json() == {"preset": "fifo", "params": {"a": 1}}
        assert bodies["POST /users"].json() == {"name": "ann", "role": "user", "uid": 1000}

    def test_an_empty_answer_is_fine(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply(b"", 204))
        with Client(service.url, "t") as client:
            client.delete(17)


class TestErrors:
    def test_a_problem_says_which_field(self, serve: Serve) -> None:
        problem = {
            "title": "Invalid",
            "status": 422,
            "detail": "is not a number",
            "errors": [{"field": "priority", "problem": "is not a number", "allowed": "0..100"}],
        }
        service = serve(lambda handler, request: handler.reply(problem, 422, "application/problem+json"))
        with Client(service.url, "t") as client, pytest.raises(ApiError) as caught:
            client.check({"command": "x", "priority": "high"})
        error = caught.value
        assert (error.status, error.field, error.allowed) == (422, "priority", "0..100")
        assert str(error) == "priority: is not a number (allowed: 0..100)"
        assert error.errors == problem["errors"]

    def test_no_such_job(self, serve: Serve) -> None:
        service = serve(lambda handler, request: not_found(handler))
        with Client(service.url, "t") as client:
            for call in (
                client.job,
                client.cancel,
                client.delete,
                client.explain,
                client.metrics,
                client.usage,
                client.wait,
            ):
                with pytest.raises(NoSuchJob, match="there is no job 17"):
                    call(17)
            with pytest.raises(NoSuchJob):
                list(client.logs(17))
            with pytest.raises(NoSuchJob):
                list(client.logs(17, follow=True))

    def test_a_missing_file_of_a_job_is_not_a_missing_job(self, serve: Serve, tmp_path: Path) -> None:
        def answer(handler: Any, request: Any) -> None:
            if request.path.endswith("/files"):
                not_found(handler, "there is no 'x' among its files")
            else:
                handler.reply(job())

        with Client(serve(answer).url, "t") as client, pytest.raises(ApiError, match="among its files") as caught:
            client.pull(17, "x", tmp_path)
        assert not isinstance(caught.value, NoSuchJob)

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"null"])
    def test_errors_of_something_else_are_errors_too(self, serve: Serve, body: bytes) -> None:
        service = serve(lambda handler, request: handler.reply(body, 418, "text/html"))
        with Client(service.url, "t") as client, pytest.raises(ApiError, match="I'm a Teapot"):
            client.nodes()

    def test_what_is_no_json_is_not_our_service(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply(b"<html>", 200, "text/html"))
        with Client(service.url, "t") as client, pytest.raises(ServiceUnreachable, match="not Schedulearn"):
            client.nodes()

    @pytest.mark.parametrize("status", [502, 503, 504])
    def test_a_service_that_is_not_ready_counts_as_unreachable(self, serve: Serve, status: int) -> None:
        service = serve(lambda handler, request: handler.reply(b"", status))
        with Client(service.url, "t") as client, pytest.raises(ServiceUnreachable, match="not ready"):
            client.nodes()

    def test_nobody_there(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply({}))
        service.stop()
        with Client(service.url, "t") as client:
            for call in (client.health, lambda: client.wait(17), lambda: list(client.logs(17, follow=True))):
                with pytest.raises(ServiceUnreachable, match=f"{service.url} does not answer: connection refused"):
                    call()
            with pytest.raises(ServiceUnreachable):
                next(client.events(follow=True))

    def test_a_service_that_hangs(self, serve: Serve) -> None:
        over = threading.Event()
        service = serve(lambda handler, request: over.wait(30) and handler.break_off())
        try:
            with Client(service.url, "t", timeout=0.1) as client, pytest.raises(ServiceUnreachable, match="in time"):
                client.health()
            assert len(service.requests) == 1  # a time-out is not tried again
        finally:
            over.set()

    @pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:port"])
    def test_an_address_that_is_none(self, url: str) -> None:
        with pytest.raises(ClientError, match="is not an address"):
            Client(url, "t")


class TestConnections:
    def test_one_that_the_service_closed_while_idle_is_opened_again_for_any_call(self, serve: Serve) -> None:
        def answer(handler: Any, request: Any) -> None:
            handler.reply(job())
            handler.close_connection = True  # without saying so

        service = serve(answer)
        with Client(service.url, "t") as client:
            for _ in range(3):
                client.cancel(17)
                wait_for_close(client)
        assert (len(service.requests), service.connections) == (3, 3)

    def test_one_that_breaks_under_a_call_that_may_be_repeated(self, serve: Serve) -> None:
        def answer(handler: Any, request: Any) -> None:
            if len(service.requests) == 2:
                handler.break_off()
            else:
                handler.reply(job())

        service = serve(answer)
        with Client(service.url, "t") as client:
            client.job(17)
            assert client.job(17)["id"] == 17
        assert len(service.requests) == 3

    def test_a_call_that_may_not_be_repeated_is_not(self, serve: Serve) -> None:
        def answer(handler: Any, request: Any) -> None:
            if request.method == "POST":
                handler.break_off()
            else:
                handler.reply(job())

        service = serve(answer)
        with Client(service.url, "t") as client:
            client.job(17)
            with pytest.raises(ServiceUnreachable):
                client.cancel(17)
        assert [r.method for r in service.requests] == ["GET", "POST"]

    def test_it_is_repeated_once_only(self, serve: Serve) -> None:
        def answer(handler: Any, request: Any) -> None:
            handler.reply(job()) if len(service.requests) == 1 else handler.break_off()

        service = serve(answer)
        with Client(service.url, "t") as client:
            client.job(17)
            with pytest.raises(ServiceUnreachable):
                client.job(17)
        assert len(service.requests) == 3

    @pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on this machine")
    def test_https(self, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
        command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
        subprocess.run(
            [*command.split(), "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
            check=True, capture_output=True,
        )  # fmt: skip
        service = serve(lambda handler, request: handler.reply({"status": "ok"}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        service.server.socket = context.wrap_socket(service.server.socket, server_side=True)
        url = f"https://localhost:{service.port}"
        with Client(url, "t") as client, pytest.raises(ServiceUnreachable, match="certificate"):
            client.health()
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        with Client(url, "t") as client:
            assert client.health()["status"] == "ok"
            assert list(client.logs(17)) == [b'{"status": "ok"}']


def wait_for_close(client: Client) -> None:
    """Until the end that the service sent has arrived here."""
    kept = client._http._kept
    assert kept
    assert kept.sock
    assert select.select([kept.sock], [], [], 10)[0]


class TestSubmit:
    @pytest.fixture
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "train.py").write_text("print(1)")
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PATH", "/my/bin:/bin")
        monkeypatch.delenv("VIRTUAL_ENV", raising=False)
        return folder

    @pytest.fixture
    def service(self, serve: Serve) -> Any:
        kept: dict[str, bytes] = {}

        def answer(handler: Any, request: Any) -> None:
            sha = request.path.rpartition("/")[2]
            if request.method == "HEAD":
                handler.reply(b"", 200 if sha in kept else 404)
            elif request.method == "PUT":
                assert hashlib.sha256(request.body).hexdigest() == sha
                kept[sha] = request.body
                handler.reply(b"", 201)
            else:
                handler.reply(job("queued", spec=request.json()), 201)

        service = serve(answer)
        service.kept = kept
        return service

    def test_the_folder_is_sent_once(self, service: Any, project: Path) -> None:
        with Client(service.url, "t") as client:
            first = client.submit({"command": "python train.py"})
            client.submit({"command": "python train.py"}, workdir=project)
        assert [r.method for r in service.requests] == ["HEAD", "PUT", "POST", "HEAD", "POST"]
        body = service.requests[2].json()
        assert body == {
            "command": "python train.py",
            "workdir": str(project),
            "snapshot": next(iter(service.kept)),
            "env": {"PATH": "/my/bin:/bin"},
        }
        assert first["state"] == "queued"
        with tarfile.open(fileobj=io.BytesIO(service.kept[body["snapshot"]])) as archive:
            assert archive.getnames() == ["train.py"]

    def test_without_a_folder_nothing_is_sent(self, service: Any, project: Path) -> None:
        with Client(service.url, "t") as client:
            client.submit({"command": "true", "workdir": None})
        assert [r.method for r in service.requests] == ["POST"]
        assert service.requests[0].json() == {"command": "true", "env": {"PATH": "/my/bin:/bin"}}

    def test_an_answer_that_is_lost_is_asked_for_again_with_the_same_key(self, serve: Serve, project: Path) -> None:
        def answer(handler: Any, request: Any) -> None:
            match len(service.requests):
                case 1:
                    handler.break_off()  # it was taken, and the answer did not arrive
                case 2:
                    handler.reply({"title": "Not now"}, 503)
                case 3:
                    handler.send_response(201)
                    handler.send_header("Content-Length", "1000")
                    handler.end_headers()
                    handler.break_off()  # half of an answer
                case _:
                    handler.reply(job("queued"), 201)

        service = serve(answer)
        with Client(service.url, "t") as client:
            assert client.submit({"command": "true", "workdir": None})["id"] == 17
            client.submit({"command": "true", "workdir": None})
            client.resubmit({"command": "true"})
        keys = [request.headers["Idempotency-Key"] for request in service.requests]
        assert keys[:4] == [keys[0]] * 4
        assert len(set(keys)) == 3, "another job has another key"
        assert len({request.body for request in service.requests[:4]}) == 1

    def test_one_that_hangs_is_asked_again(self, serve: Serve, project: Path) -> None:
        over = threading.Event()

        def answer(handler: Any, request: Any) -> None:
            if len(service.requests) == 1:
                over.wait(60)
                handler.break_off()
            else:
                handler.reply(job("queued"), 201)

        service = serve(answer)
        with Client(service.url, "t", timeout=0.5) as client:
            assert client.resubmit({"command": "true"})["id"] == 17
        over.set()

    def test_where_nobody_is_it_says_so_at_once(self, serve: Serve, project: Path) -> None:
        service = serve(lambda handler, request: handler.reply({}))
        service.stop()
        refused = pytest.raises(ServiceUnreachable, match="connection refused")
        with Client(service.url, "t") as client, refused as nobody:
            client.submit({"command": "true"})
        assert not isinstance(nobody.value, NoAnswer), "nothing can have been made"

    def test_what_was_refused_is_not_tried_again(self, serve: Serve, project: Path) -> None:
        service = serve(lambda handler, request: handler.reply({"title": "No"}, 422))
        with Client(service.url, "t") as client, pytest.raises(ApiError):
            client.resubmit({"command": "true"})
        assert len(service.requests) == 1

    def test_it_does_not_try_for_ever(self) -> None:
        tries: list[None] = []

        def call() -> None:
            tries.append(None)
            raise NoAnswer("not ready")

        with pytest.raises(NoAnswer):
            surely(call, seconds=0.05)
        assert len(tries) == 2

    @pytest.mark.parametrize("how", ["not ready", "breaks off", "late", "gone since"])
    def test_who_gives_up_is_told_that_it_may_have_been_made(
        self, serve: Serve, project: Path, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        over = threading.Event()

        def answer(handler: Any, request: Any) -> None:
            if how == "not ready":
                handler.reply({"title": "Not now"}, 503)
                return
            if how == "late":
                over.wait(60)
            handler.break_off()

        tried: list[str] = []
        service = serve(answer)
        monkeypatch.setattr("schedulearn.client.client.surely", partial(surely, seconds=0.05))
        if how == "gone since":
            real = Transport.request

            def last_request(*words: Any, **more: Any) -> Any:
                tried.append("")
                if len(tried) == 2:
                    service.stop()
                return real(*words, **more)

            monkeypatch.setattr(Transport, "request", last_request)
        maybe = pytest.raises(MaybeSubmitted, match="the job may have been made")
        with Client(service.url, "t", timeout=0.2 if how == "late" else 30.0) as client, maybe as gave_up:
            client.resubmit({"command": "true"})
        over.set()
        seen = {request.headers["Idempotency-Key"] for request in service.requests}
        assert seen <= {gave_up.value.key}, "a late service may not even have looked at it yet"

    def test_with_the_key_of_before(self, service: Any, project: Path) -> None:
        with Client(service.url, "t") as client:
            client.submit({"command": "true", "workdir": None}, key="mine")
            with pytest.raises(ClientError, match="ASCII"):
                client.resubmit({"command": "true"}, key="not\nmine")
        assert [request.headers["Idempotency-Key"] for request in service.requests] == ["mine"]

    def test_the_callers_environment(self, service: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VIRTUAL_ENV", "/my/venv")
        monkeypatch.setenv("KEY", "secret")
        spec = {"command": "true", "workdir": None, "env": {"KEY": None, "LR": "0.1", "PATH": "/own"}}
        with Client(service.url, "t") as client:
            client.submit(spec)
            client.submit({**spec, "image": "torch"})
        env = service.requests[0].json()["env"]
        assert env == {"KEY": "secret", "LR": "0.1", "PATH": "/own", "VIRTUAL_ENV": "/my/venv"}
        assert service.requests[1].json()["env"] == {"KEY": "secret", "LR": "0.1", "PATH": "/own"}
        assert spec["env"] == {"KEY": None, "LR": "0.1", "PATH": "/own"}  # the caller's own is left alone

    def test_a_variable_that_is_not_there(self, service: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NOT_SET", raising=False)
        with Client(service.url, "t") as client, pytest.raises(MissingVariable, match="NOT_SET"):
            client.submit({"command": "true", "env": {"NOT_SET": None}})
        assert service.requests == []

    def test_a_folder_that_is_not_there(self, service: Any, project: Path) -> None:
        with Client(service.url, "t") as client:
            with pytest.raises(SnapshotError, match="workdir: there is no folder"):
                client.submit({"command": "true", "workdir": "missing"})
            with pytest.raises(SnapshotError, match="workdir: there is no folder"):
                client.check({"command": "true", "workdir": "missing"})
        assert service.requests == []

    def test_a_check_sends_no_folder(self, service: Any, project: Path) -> None:
        with Client(service.url, "t") as client:
            client.check({"command": "true"})
        assert [(r.method, r.query) for r in service.requests] == [("POST", {"dry_run": ["true"]})]
        assert "workdir" not in service.requests[0].json()

    def test_a_refusal_in_the_middle_of_an_upload_is_heard(self, serve: Serve, project: Path) -> None:
        def answer(handler: Any, request: Any) -> None:
            if request.method == "HEAD":
                handler.reply(b"", 404)
            else:
                handler.reply({"title": "Too large", "detail": "at most 200 MB"}, 413)

        with Client(serve(answer).url, "t") as client, pytest.raises(ApiError, match="at most 200 MB"):
            client.submit({"command": "true"})


class TestWait:
    def test_until_it_is_finished(self, serve: Serve) -> None:
        states = iter(["queued", "running", "stopping", "succeeded"])
        service = serve(lambda handler, request: handler.reply(job(next(states))))
        with Client(service.url, "t") as client:
            assert client.wait(17)["state"] == "succeeded"

    def test_no_longer_than_it_may(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply(job()))
        with Client(service.url, "t") as client, pytest.raises(WaitTimeout, match="job 17 did not end within"):
            client.wait(17, timeout=0.1)

    def test_across_a_restart_of_the_service(self, serve: Serve) -> None:
        seen = threading.Event()

        def answer(handler: Any, request: Any) -> None:
            seen.set()
            handler.reply(job("failed" if back else "running"))

        back: list[bool] = []
        service = serve(answer)

        def restart() -> None:
            seen.wait(30)
            service.stop()
            back.append(True)
            service.start()

        thread = threading.Thread(target=restart)
        thread.start()
        with Client(service.url, "t") as client:
            assert client.wait(17)["state"] == "failed"
        thread.join()

    def test_patience_ends(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply(job()) or stop())

        def stop() -> None:
            threading.Thread(target=service.stop).start()

        with Client(service.url, "t") as client, pytest.raises(ServiceUnreachable):
            client.wait(17, patience=0.2)


class TestPull:
    @staticmethod
    def archive(*names: str) -> bytes:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = 4
                tar.addfile(member, io.BytesIO(b"text"))
        return data.getvalue()

    def test_files_are_written(self, serve: Serve, tmp_path: Path) -> None:
        data = self.archive("out/model.pt", "log.txt")

        def answer(handler: Any, request: Any) -> None:
            handler.start_chunks("application/x-tar")
            for i in range(0, len(data), 1000):
                handler.chunk(data[i : i + 1000])
            handler.chunk(b"")

        service = serve(answer)
        with Client(service.url, "t") as client:
            written = client.pull(17, "out", tmp_path / "here")
        assert written == [tmp_path / "here/out/model.pt", tmp_path / "here/log.txt"]
        assert (tmp_path / "here/out/model.pt").read_text() == "text"
        assert service.requests[0].query == {"path": ["out"]}

    def test_nothing_is_written_outside(self, serve: Serve, tmp_path: Path) -> None:
        service = serve(lambda handler, request: handler.reply(self.archive("../evil"), kind="application/x-tar"))
        with (
            Client(service.url, "t") as client,
            pytest.raises(ClientError, match="leads outside"),
        ):
            client.pull(17, to=tmp_path / "here")
        assert not (tmp_path / "evil").exists()

    @pytest.mark.parametrize("chunked", [True, False])
    def test_a_stream_that_breaks_off_is_said(self, serve: Serve, tmp_path: Path, chunked: bool) -> None:
        data = self.archive("a", "b")

        def answer(handler: Any, request: Any) -> None:
            if chunked:
                handler.start_chunks()
                handler.chunk(data[:700])
            else:
                handler.send_response(200)
                handler.send_header("Content-Length", str(len(data)))
                handler.end_headers()
                handler.wfile.write(data[:700])
            handler.break_off()

        with Client(serve(answer).url, "t") as client, pytest.raises(ServiceUnreachable, match="broke"):
            client.pull(17, to=tmp_path)


class TestExec:
    @staticmethod
    def frames(*given: tuple[int, bytes]) -> bytes:
        return b"".join(bytes([kind]) + len(content).to_bytes(4, "big") + content for kind, content in given)

    def serving(self, serve: Serve, data: bytes, size: int) -> Any:
        def answer(handler: Any, request: Any) -> None:
            handler.start_chunks()
            for place in range(0, len(data), size):
                handler.chunk(data[place : place + size])
            handler.chunk(b"")

        return serve(answer)

    @pytest.mark.parametrize("size", [1, 7, 1000])
    def test_output_and_exit_code_however_they_are_cut(self, serve: Serve, size: int) -> None:
        data = self.frames((0, b""), (1, b"out"), (0, b""), (2, b"err"), (1, b""), (3, b"42"))
        service = self.serving(serve, data, size)
        with Client(service.url, "t") as client, client.exec(17, ["ls", "-l"], worker=2) as running:
            assert list(running) == [(STDOUT, b"out"), (STDERR, b"err"), (STDOUT, b"")]
            assert running.exit_code == 42
        asked = service.requests[0]
        assert (asked.method, asked.path) == ("POST", "/jobs/17/exec")
        assert asked.json() == {"command": ["ls", "-l"], "worker": 2}

    def test_a_command_that_is_lost(self, serve: Serve) -> None:
        service = self.serving(serve, self.frames((1, b"out"), (4, b'{"detail": "the engine hung up"}')), 1000)
        with (
            Client(service.url, "t") as client,
            client.exec(17, ["ls"]) as running,
            pytest.raises(ApiError, match="hung up"),
        ):
            list(running)

    @pytest.mark.parametrize("kept", [3, 7, 8])  # in a header, in a content, between two frames
    def test_a_stream_that_breaks_off(self, serve: Serve, kept: int) -> None:
        service = self.serving(serve, self.frames((1, b"out"), (3, b"0"))[:kept], 1000)
        with (
            Client(service.url, "t") as client,
            client.exec(17, ["ls"]) as running,
            pytest.raises(ServiceUnreachable, match="not known"),
        ):
            list(running)


class TestSettings:
    @pytest.fixture
    def stored(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("SCHEDULEARN_DATA", str(tmp_path))
        (tmp_path / "client.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "stored"}))
        return tmp_path

    def test_arguments_stand_before_the_environment_and_that_before_the_file(
        self, stored: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert find_service() == ("http://127.0.0.1:1", "stored")
        monkeypatch.setenv("SCHEDULEARN_URL", "http://lab")
        monkeypatch.setenv("SCHEDULEARN_TOKEN", "mine")
        assert find_service() == ("http://lab", "mine")
        assert find_service("http://other", "given") == ("http://other", "given")

    def test_the_stored_token_goes_to_its_own_service_only(self, stored: Path) -> None:
        assert find_service("http://127.0.0.1:1/") == ("http://127.0.0.1:1/", "stored")
        assert find_service("http://127.0.0.1:2") == ("http://127.0.0.1:2", "")

    @pytest.mark.parametrize("text", [None, "", "{}", "[]", "garbage"])
    def test_without_any_it_says_what_to_do(self, stored: Path, text: str | None) -> None:
        if text is None:
            (stored / "client.json").unlink()
        else:
            (stored / "client.json").write_text(text)
        with pytest.raises(ServiceUnreachable, match="schedulearn up"):
            Client()


def test_importing_it_brings_nothing_heavy() -> None:
    code = "import sys, schedulearn.client; print(*sorted({n.partition('.')[0] for n in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env()).stdout
    foreign = set(loaded.split()) - sys.stdlib_module_names - {"schedulearn", "__main__"}
    assert {name for name in foreign if not name.startswith("_")} <= {"sitecustomize"}


def env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
