"""A small Mesos framework for tests and benchmarks of the master: it subscribes, gets events and makes calls over HTTP.

    with FrameworkClient("127.0.0.1:5050", {"user": "me", "name": "mine"}, on_event) as framework:
        framework.call("SUPPRESS")

Events are handled on the thread that reads the stream; calls use other connections.
"""

from __future__ import annotations

import contextlib
import http.client
import queue
import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import msgspec

from strato.api.meta import Json
from strato.errors import StateError, one_line
from strato.interop.mesos.wire import JSON, RecordReader

_READ_BYTES = 1 << 16
_SECONDS = 60.0
OnEvent = Callable[["FrameworkClient", Json], None]


class FrameworkClient:
    """A connected framework.

    Args:
        master: ``host:port``.
        info: FrameworkInfo; the id is added once the master has assigned it.
        on_event: Called with each event, in order.
        workers: Number of connections for calls without waiting (`post`).
        tls: TLS context that trusts the master; None uses plain HTTP.
    """

    def __init__(
        self, master: str, info: Json, on_event: OnEvent, *, workers: int = 1, tls: ssl.SSLContext | None = None
    ) -> None:
        self._tls = tls
        self._master, self.info, self._on_event = master, dict(info), on_event
        self._stream_id = ""
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._calls: http.client.HTTPConnection | None = None
        self._posted: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        self._workers = workers
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_closing = False
        self.subscribed = threading.Event()
        self.ended = threading.Event()
        """Set when either side has ended the stream."""
        self.errors: list[str] = []
        """Refused calls and ERROR events."""

    @property
    def id(self) -> str:
        """The framework's id; empty before it has subscribed."""
        return str(self.info.get("id", {}).get("value", ""))

    def _open(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._master, timeout=_SECONDS)
        return http.client.HTTPSConnection(self._master, timeout=_SECONDS, context=self._tls)

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Subscribe; call again to resubscribe after the stream has ended.

        Raises:
            StateError: The master refuses.
        """
        body: Json = {"type": "SUBSCRIBE", "subscribe": {"framework_info": self.info}}
        if self.id:
            body["framework_id"] = self.info["id"]
        self._is_closing = False
        self.subscribed.clear()
        self.ended.clear()
        self._connection = self._open()
        headers = {"Content-Type": JSON, "Accept": JSON}
        self._connection.request("POST", "/api/v1/scheduler", msgspec.json.encode(body), headers)
        self._socket = self._connection.sock
        response = self._connection.getresponse()
        if response.status != 200:
            self._connection.close()
            raise StateError(f"the master of {self._master} answers {response.status}: {response.read().decode()}")
        self._stream_id = response.headers["Mesos-Stream-Id"]
        self._threads = [threading.Thread(target=self._listen, args=(response,), daemon=True)]
        self._threads += [threading.Thread(target=self._work, daemon=True) for _ in range(self._workers)]
        for thread in self._threads:
            thread.start()

    def _listen(self, response: http.client.HTTPResponse) -> None:
        reader = RecordReader()
        try:
            while data := response.read1(_READ_BYTES):
                for record in reader.feed(data):
                    self._take(msgspec.json.decode(record))
        except (OSError, http.client.HTTPException, AttributeError, ValueError) as error:
            if not self._is_closing:
                self.errors.append(f"the stream broke: {one_line(error)}")
        finally:
            response.close()
            self.ended.set()

    def _take(self, event: Json) -> None:
        if event["type"] == "SUBSCRIBED":
            self.info["id"] = event["subscribed"]["framework_id"]
            self.subscribed.set()
        elif event["type"] == "ERROR":
            self.errors.append(event["error"]["message"])
        self._on_event(self, event)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, kind: str, **body: Any) -> None:
        """Make a call and wait for its answer."""
        with self._lock:
            if self._calls is None:
                self._calls = self._open()
            self._send(self._calls, self._message(kind, body))

    def post(self, kind: str, **body: Any) -> None:
        """Queue a call for the workers."""
        self._posted.put(self._message(kind, body))

    def acknowledge(self, event: Json) -> None:
        """Queue the acknowledgement of an update that requires one."""
        status = event["update"]["status"]
        if "uuid" in status:
            self.post("ACKNOWLEDGE", **{name: status[name] for name in ("agent_id", "task_id", "uuid")})

    def _message(self, kind: str, body: Json) -> Json:
        return {"type": kind, "framework_id": self.info["id"], kind.lower(): body}

    def _work(self) -> None:
        with contextlib.closing(self._open()) as connection:
            while (call := self._posted.get()) is not None:
                try:
                    self._send(connection, call)
                except (OSError, http.client.HTTPException) as error:
                    connection.close()
                    if not self._is_closing:
                        self.errors.append(f"{call['type']}: {one_line(error)}")

    def _send(self, connection: http.client.HTTPConnection, call: Json) -> None:
        headers = {"Content-Type": JSON, "Mesos-Stream-Id": self._stream_id}
        connection.request("POST", "/api/v1/scheduler", msgspec.json.encode(call), headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status not in (200, 202):
            self.errors.append(f"{call['type']}: {response.status} {answer.decode()}")

    def close(self) -> None:
        """End the stream after the posted calls; the framework can reconnect within its failover timeout."""
        self._is_closing = True
        for _ in range(self._workers):
            self._posted.put(None)
        _join(self._threads[1:])  # workers first: the master refuses calls after the stream has ended
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        _join(self._threads[:1])
        for connection in (self._connection, self._calls):
            if connection is not None:
                connection.close()
        self._calls = None


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(_SECONDS)


def fitting(offer: Json, cpus: float, memory_mib: float) -> int:
    """Return how many tasks of a size fit into an offer."""
    amounts = {item["name"]: item.get("scalar", {}).get("value", 0.0) for item in offer["resources"]}
    by_cpus = int((amounts.get("cpus", 0.0) + 1e-9) / cpus)
    return min(by_cpus, int((amounts.get("mem", 0.0) + 1e-9) / memory_mib))


def command_task(name: str, offer: Json, command: str, cpus: float, memory_mib: float) -> Json:
    """Return a TaskInfo that runs a shell's line."""
    resources = [
        {"name": "cpus", "type": "SCALAR", "scalar": {"value": cpus}},
        {"name": "mem", "type": "SCALAR", "scalar": {"value": memory_mib}},
    ]
    task: Json = {"name": name, "task_id": {"value": name}, "agent_id": offer["agent_id"]}
    return {**task, "resources": resources, "command": {"value": command}}
