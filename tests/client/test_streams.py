"""Following events and logs: every piece exactly once, however often the connection breaks."""

import json
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.client import Client, ServiceUnreachable
from schedulearn.client.streams import Message, messages

Serve = Callable[[Callable[[Any, Any], None]], Any]


def message(serial: int) -> bytes:
    return f"id: {serial}\nevent: submitted\ndata: {json.dumps({'serial': serial})}\n\n".encode()


class TestMessages:
    @given(data=st.data(), end=st.sampled_from(["\n", "\r\n", "\r"]))
    def test_it_does_not_matter_how_the_bytes_are_cut(self, data: Any, end: str) -> None:
        text = ": hello\n\nid: 1\nevent: a\ndata: x\n\ndata:y\ndata: é\n\nid: 7\n\n".replace("\n", end).encode()
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        expected = [Message("1", "a", "x"), Message("1", "message", "y\né"), Message("7", "message", None)]
        # A CR at the very end may be half of a CR LF: the last message then waits for more.
        assert list(messages(pieces)) == (expected[:2] if end == "\r" else expected)

    def test_half_a_message_is_none(self) -> None:
        assert list(messages([b"id: 1\ndata: x\n"])) == []


class TestEvents:
    def test_pages_are_read_to_the_end(self, serve: Serve) -> None:
        def answer(handler: Any, request: Any) -> None:
            after = int(request.query.get("after", ["0"])[0])
            handler.reply({"events": [{"serial": i} for i in range(after + 1, min(after + 3, 6))]})

        service = serve(answer)
        with Client(service.url, "t") as client:
            assert [event["serial"] for event in client.events()] == [1, 2, 3, 4, 5]
            assert [event["serial"] for event in client.events(after=4)] == [5]
            assert [event["serial"] for event in client.job_events(17)] == [1, 2, 3, 4, 5]
        assert service.requests[0].query == {"follow": ["false"]}
        assert service.requests[-1].path == "/jobs/17/events"

    def test_each_comes_once_although_the_connection_breaks(self, serve: Serve) -> None:
        def answer(handler: Any, request: Any) -> None:
            after = int(request.headers.get("Last-Event-ID", "0"))
            assert request.query.get("after", ["0"]) == [str(after)]
            handler.start_chunks("text/event-stream")
            handler.chunk(b": connected\n\n")
            handler.chunk(message(after + 1) + message(after + 2))
            handler.chunk(message(after + 3)[:-5])  # cut: it comes again
            handler.break_off()

        service = serve(answer)
        with Client(service.url, "t") as client:
            serials = [event["serial"] for event in islice(client.events(follow=True), 8)]
        assert serials == list(range(1, 9))
        assert len(service.requests) == 4

    def test_a_silent_stream_is_opened_again(self, serve: Serve) -> None:
        over = threading.Event()

        def answer(handler: Any, request: Any) -> None:
            handler.start_chunks("text/event-stream")
            if "Last-Event-ID" not in request.headers:
                handler.chunk(message(1))
                over.wait(30)
            else:
                handler.chunk(message(2))
            handler.break_off()

        service = serve(answer)
        try:
            with Client(service.url, "t") as client:
                client._http.silence = 0.05
                assert [event["serial"] for event in islice(client.events(follow=True), 2)] == [1, 2]
        finally:
            over.set()

    def test_of_one_job(self, serve: Serve) -> None:
        def answer(handler: Any, request: Any) -> None:
            handler.start_chunks("text/event-stream")
            handler.chunk(message(1))
            handler.break_off()

        service = serve(answer)
        with Client(service.url, "t") as client:
            next(client.events(follow=True, job=17))
        assert service.requests[0].query == {"job": ["17"], "follow": ["true"]}


class Logs:
    """Attempts with their output; streams break after so many bytes, and end as the true service ends them."""

    def __init__(self, outputs: list[bytes], break_after: list[int]) -> None:
        self.outputs, self.break_after = outputs, break_after
        self.attempt = 1
        self.finished = False

    def answer(self, handler: Any, request: Any) -> None:
        if not request.path.endswith("/logs"):
            handler.reply({"id": 17, "attempt": self.attempt, "state": "succeeded" if self.finished else "running"})
            return
        query = {name: values[0] for name, values in request.query.items()}
        attempt = int(query.get("attempt", self.attempt))
        output = self.outputs[attempt - 1]
        if query.get("follow") != "true":
            lines = output.splitlines(keepends=True)
            data = b"".join(lines[-int(query["tail"]) :]) if "tail" in query else output[int(query.get("offset", 0)) :]
            handler.reply(data, kind="text/plain", X_Next_Offset=str(len(output)))
            return
        rest = output[int(query["offset"]) :]
        handler.start_chunks()
        if self.break_after:
            if part := rest[: self.break_after.pop(0)]:
                handler.chunk(part)
            handler.break_off()
            return
        for i in range(0, len(rest), 7):
            handler.chunk(rest[i : i + 7])
        if attempt < len(self.outputs):
            self.attempt = max(self.attempt, attempt + 1)
        else:
            self.finished = True
        handler.chunk(b"")


class TestLogs:
    def test_as_they_are(self, serve: Serve) -> None:
        service = serve(Logs([b"a\nb\n\xff\n"], []).answer)
        with Client(service.url, "t") as client:
            assert b"".join(client.logs(17)) == b"a\nb\n\xff\n"
            assert b"".join(client.logs(17, tail=1)) == b"\xff\n"
            assert b"".join(client.logs(17, offset=2, worker=1, attempt=1)) == b"b\n\xff\n"
        assert service.requests[-1].query == {"offset": ["2"], "worker": ["1"], "attempt": ["1"]}

    @pytest.mark.parametrize("breaks", [[], [3], [1, 1, 1, 5], [100]])
    def test_every_byte_comes_once(self, serve: Serve, breaks: list[int]) -> None:
        text = b"".join(b"line %d\n" % i for i in range(20))
        service = serve(Logs([text], list(breaks)).answer)
        with Client(service.url, "t") as client:
            assert b"".join(client.logs(17, follow=True)) == text

    def test_it_follows_on_into_later_attempts(self, serve: Serve) -> None:
        service = serve(Logs([b"first\n", b"", b"second\n"], [2, 1]).answer)
        with Client(service.url, "t") as client:
            assert b"".join(client.logs(17, follow=True)) == b"first\nsecond\n"

    def test_a_named_attempt_is_followed_alone(self, serve: Serve) -> None:
        logs = Logs([b"first\n", b"second\n"], [2])
        service = serve(logs.answer)
        with Client(service.url, "t") as client:
            assert b"".join(client.logs(17, follow=True, attempt=1)) == b"first\n"

    def test_the_last_lines_and_then_what_comes(self, serve: Serve) -> None:
        logs = Logs([b"a\nb\nc\n"], [])
        service = serve(logs.answer)
        with Client(service.url, "t") as client:
            chunks = client.logs(17, follow=True, tail=1)
            assert next(chunks) == b"c\n"
            logs.outputs[0] += b"d\n"
            logs.break_after.append(1)
            assert b"".join(chunks) == b"d\n"

    def test_a_restart_of_the_service_is_survived(self, serve: Serve) -> None:
        logs = Logs([b"before\nafter\n"], [7])
        service = serve(logs.answer)
        with Client(service.url, "t") as client:
            chunks = client.logs(17, follow=True)
            assert next(chunks) == b"before\n"
            service.stop()
            threading.Timer(0.3, service.start).start()
            assert b"".join(chunks) == b"after\n"

    def test_a_service_that_ends_its_streams_before_it_stops_is_asked_again(self, serve: Serve) -> None:
        """A graceful stop ends the stream properly although the job goes on."""
        logs = Logs([b"before\nafter\n"], [])

        def answer(handler: Any, request: Any) -> None:
            if request.path.endswith("/logs") and request.query["offset"] == ["0"]:
                handler.start_chunks()
                handler.chunk(b"before\n")
                handler.chunk(b"")
            else:
                logs.answer(handler, request)

        with Client(serve(answer).url, "t") as client:
            assert b"".join(client.logs(17, follow=True)) == b"before\nafter\n"

    def test_a_job_that_waits_is_waited_for(self, serve: Serve) -> None:
        logs = Logs([b"text\n"], [])
        logs.attempt = 0
        asked: list[int] = []

        def answer(handler: Any, request: Any) -> None:
            asked.append(1)
            if len(asked) == 3:
                logs.attempt = 1
            logs.answer(handler, request)

        with Client(serve(answer).url, "t") as client:
            assert b"".join(client.logs(17, follow=True)) == b"text\n"

    def test_one_that_was_cancelled_before_it_started_has_none(self, serve: Serve) -> None:
        service = serve(lambda handler, request: handler.reply({"id": 17, "attempt": 0, "state": "cancelled"}))
        with Client(service.url, "t") as client:
            assert list(client.logs(17, follow=True)) == []

    def test_a_quiet_job_is_followed_for_as_long_as_it_takes(self, serve: Serve) -> None:
        """Silence is no sign that the service is away, however long it lasts."""
        over = threading.Event()
        logs = Logs([b"text\n"], [])

        def answer(handler: Any, request: Any) -> None:
            if request.path.endswith("/logs") and sum(r.path.endswith("/logs") for r in service.requests) < 6:
                handler.start_chunks()
                over.wait(30)
                handler.break_off()
            else:
                logs.answer(handler, request)

        service = serve(answer)
        try:
            with Client(service.url, "t") as client:
                client._http.silence = 0.05
                assert b"".join(client.logs(17, follow=True, patience=0.01)) == b"text\n"
        finally:
            over.set()

    def test_patience_ends(self, serve: Serve) -> None:
        logs = Logs([b"before\nafter\n"], [7])
        service = serve(logs.answer)
        with Client(service.url, "t") as client:
            chunks = client.logs(17, follow=True, patience=0.2)
            next(chunks)
            service.stop()
            with pytest.raises(ServiceUnreachable):
                list(chunks)
