"""A small chat-completions service on loopback that plays what a test tells it.

Lives here: the service, which runs in threads, and the words in which a test says what
one answer does.  It waits for nothing by the clock: an answer that hangs hangs until
the client goes away.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs

__all__ = ["DROP", "HANG", "ChatService", "Failure", "chunk", "serve", "tool_piece"]

HANG = "hang"
"""Wait until the client closes the connection."""

DROP = "drop"
"""Close the connection in the middle of the response."""


@attrs.frozen
class Failure:
    """An answer with an error status."""

    status: int
    body: Any


def chunk(
    content: str | None = None,
    *,
    calls: Sequence[dict[str, Any]] | None = None,
    refusal: str | None = None,
    finish: str | None = None,
    usage: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One chunk of a streamed response; with usage alone it has no choices."""
    delta: dict[str, Any] = {}
    if content is not None:
        delta["content"] = content
    if calls is not None:
        delta["tool_calls"] = list(calls)
    if refusal is not None:
        delta["refusal"] = refusal
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    written: dict[str, Any] = {"object": "chat.completion.chunk"}
    written["choices"] = [choice] if delta or finish else []
    if usage is not None:
        written["usage"] = usage
    return written


def tool_piece(
    index: int | None,
    arguments: str = "",
    name: str | None = None,
    call_id: str | None = None,
) -> dict[str, Any]:
    """One piece of a tool call."""
    function: dict[str, Any] = {"arguments": arguments}
    if name is not None:
        function["name"] = name
    piece: dict[str, Any] = {"function": function}
    if index is not None:
        piece["index"] = index
    if call_id is not None:
        piece["id"] = call_id
    return piece


class ChatService(ThreadingHTTPServer):
    """The service: `answers` are played in order, `bodies` are what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Failure | Sequence[Any]] = []
        self.otherwise: Failure | Sequence[Any] | None = None
        self.bodies: list[dict[str, Any]] = []
        self.raw_bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.gone = threading.Semaphore(0)
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def play(self, *events: Any) -> None:
        """Let the next answer be this stream of chunks, `HANG` and `DROP`."""
        self.answers.append(events)

    def fail(self, status: int, body: Any) -> None:
        """Let the next answer be an error."""
        self.answers.append(Failure(status, body))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def service(self) -> ChatService:
        assert isinstance(self.server, ChatService)
        return self.server

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        raw = self.rfile.read(length)
        if len(raw) < length:
            # The client went away in the middle of its question.
            self.close_connection = True
            return
        with self.service.lock:
            self.service.raw_bodies.append(raw)
            self.service.bodies.append(json.loads(raw))
            self.service.headers.append({k.lower(): v for k, v in self.headers.items()})
            answer = self._next_answer()
        if isinstance(answer, Failure):
            self._fail(answer)
            return
        try:
            self._stream(answer)
        except OSError:
            self.close_connection = True
            self.service.gone.release()

    def _next_answer(self) -> Failure | Sequence[Any]:
        if self.service.answers:
            return self.service.answers.pop(0)
        if self.service.otherwise is None:
            return Failure(500, {"error": {"message": "the test gave no answer"}})
        return self.service.otherwise

    def _fail(self, answer: Failure) -> None:
        body = answer.body
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(answer.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, events: Sequence[Any]) -> None:
        if events[0] == HANG:
            self._hang()
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            if event == HANG:
                self._hang()
                return
            if event == DROP:
                self.close_connection = True
                return
            if isinstance(event, bytes):
                self._write(event)
            else:
                self._write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self._write(b"data: [DONE]\n\n")
        self._write(b"")

    def _write(self, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.flush()

    def _hang(self) -> None:
        self.close_connection = True
        while self.connection.recv(4096):
            pass
        self.service.gone.release()


@contextmanager
def serve() -> Iterator[ChatService]:
    """Run a service for a test."""
    service = ChatService()
    thread = threading.Thread(
        target=service.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield service
    finally:
        service.shutdown()
        service.server_close()
        thread.join()
