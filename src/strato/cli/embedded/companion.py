"""The second process of the embedded cluster, where controllers, scheduler and nodes run beside the API server.

Two processors then work at once: one answers requests, the other one runs the components. The server's process starts
the companion before anything else, so that both load their code at the same time; a socket pair joins them
(`strato.client.link`). On the server's request to stop, the companion ends its components and exits; if the server's
process is killed, the kernel kills the companion too. If the companion dies alone, the server's process starts it
again: containers outlive their node's process, and all other state is in the API.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from typing import Any, NoReturn

import msgspec

from strato.api.wire import Handler, Request, Response
from strato.cli.embedded.options import EmbeddedOptions, Ending
from strato.cli.home import Stop
from strato.clock import Clock
from strato.errors import ApiError, StratoError, Unavailable, UsageError

_READY, _METRICS, _STOP, _END = "/ready", "/metrics", "/stop", "/end"
_STOP_SECONDS = 20.0
_METRICS_SECONDS = 1.0
"""How long a scrape of the server's ``/metrics`` waits for the companion; Prometheus gives up after ten seconds."""
_UP = b"""# HELP strato_parts_up Whether the process of controllers, scheduler and nodes answers.
# TYPE strato_parts_up gauge
strato_parts_up %d
"""
_EXIT_SECONDS = 5.0
_UNUSABLE = 422
"""Status of the answer to ``/end`` when the components ended with a UsageError: the user's options are wrong."""
_RESTARTS = 5
"""Most restarts within `_RESTARTS_WITHIN_SECONDS`; the next failure in that time ends the cluster."""
_RESTARTS_WITHIN_SECONDS = 600.0
_RESTART_AFTER_SECONDS = 1.0

_log = logging.getLogger(__name__)


class ComponentsFailed(StratoError):
    """A controller, the scheduler or a node ended, or their process did."""


class Companion:
    """The server's handle of the companion process, which creating it starts.

    Args:
        options: Options of the components that the process starts.
        lock: Descriptor of the home's lock, which that process inherits: the lock is free when both are gone.
    """

    def __init__(self, options: EmbeddedOptions, lock: int) -> None:
        self.ending: Ending = lambda: None
        """Returns how the pods are to end; called when the components are asked to stop."""
        self.ended = 0
        """How many pods were ended by that."""
        self._options, self._lock = options, lock
        self._restarts: deque[float] = deque(maxlen=_RESTARTS)
        """Monotonic times of the newest restarts."""
        self._was_ready = False
        self._start()

    def _start(self) -> None:
        self._link: Any = None
        self._end, theirs = socket.socketpair()
        options = msgspec.json.encode(self._options).decode()
        arguments = (str(theirs.fileno()), str(self._lock), str(os.getpid()), options)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "strato.cli.embedded.companion", *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), self._lock),
            )

    async def attach(self, server: Handler) -> None:
        """Connect to the process; from now on ``server`` answers its requests."""
        from strato.client.link import connect

        self._link = await connect(self._end, server)

    async def hang_up(self) -> None:
        """Close the connection, on which the process exits at once; for a server that could not start."""
        await self._link.close()

    async def ready(self) -> dict[str, Any] | None:
        """Wait until the components are ready; return this machine's node summary."""
        try:
            response = await self._link.handle(Request("GET", _READY))
        except Unavailable:
            await asyncio.Event().wait()  # until `run`, which has the reason, fails and cancels this
        self._was_ready = True
        summary: dict[str, Any] | None = msgspec.json.decode(response.body)
        return summary

    async def metrics(self) -> bytes:
        """Return the components' metrics and ``strato_parts_up``; the latter alone, as 0, while they do not answer."""
        body = b""
        if self._link is not None and not self._link.closed.is_set():
            with contextlib.suppress(ApiError, TimeoutError):
                async with asyncio.timeout(_METRICS_SECONDS):
                    response: Response = await self._link.handle(Request("GET", _METRICS))
                    body = response.body
        return body + _UP % bool(body)

    async def run(self, server: Handler, clock: Clock) -> None:
        """Keep the components running; when cancelled, end them while the server still answers their last writes.

        Args:
            server: Answers the components' requests.
            clock: Times restarts.

        Raises:
            ComponentsFailed: They ended by themselves before they were ready, or more than `_RESTARTS` times.
            UsageError: They cannot use the options.
        """
        while True:
            try:
                await self._serve()
            except ComponentsFailed as error:
                now = clock.monotonic()
                often = len(self._restarts) == _RESTARTS and now - self._restarts[0] < _RESTARTS_WITHIN_SECONDS
                if often or not self._was_ready:
                    raise
                self._restarts.append(now)
                _log.error("%s; it is started again", error)
            await asyncio.to_thread(self.end)
            await clock.sleep(_RESTART_AFTER_SECONDS)
            self._start()
            await self.attach(server)

    async def _serve(self) -> NoReturn:
        """Wait until the components end; end them when cancelled."""
        try:
            response = await self._link.handle(Request("GET", _END))
        except Unavailable:
            status = await asyncio.to_thread(self._process.wait)
            raise ComponentsFailed(
                f"the process of controllers, scheduler and nodes ended with status {status}"
            ) from None
        except asyncio.CancelledError:
            await self._stop()
            raise
        finally:
            await self._link.close()
        raise (UsageError if response.status == _UNUSABLE else ComponentsFailed)(response.body.decode())

    async def _stop(self) -> None:
        stop = self.ending()
        seconds = _STOP_SECONDS + (stop.grace_seconds if stop is not None else 0.0)
        with contextlib.suppress(TimeoutError, ApiError):
            async with asyncio.timeout(seconds):
                answer: Response = await self._link.handle(Request("POST", _STOP, body=msgspec.json.encode(stop)))
                self.ended = msgspec.json.decode(answer.body, type=int)

    def end(self) -> None:
        """Wait until the process is gone; kill it after `_EXIT_SECONDS`, or at once if it was never connected."""
        if self._link is None:
            self._process.kill()
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._end.close()


class _ComponentsHandler(Handler):
    """Answers, in the companion, the requests of the server's process."""

    def __init__(self) -> None:
        from strato.metrics import Registry

        self.metrics = Registry()
        self.stop = asyncio.Event()
        self.how: Stop | None = None
        self.stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Set once the components have stopped: how many pods they ended."""
        self.ready: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[StratoError] = asyncio.get_running_loop().create_future()

    async def handle(self, request: Request) -> Response:
        """Answer."""
        if request.path == _READY:
            return Response(200, msgspec.json.encode(await asyncio.shield(self.ready)))
        if request.path == _METRICS:
            return Response(200, self.metrics.render())
        if request.path == _STOP:
            self.how = msgspec.json.decode(request.body, type=Stop | None)
            self.stop.set()
            return Response(200, msgspec.json.encode(await asyncio.shield(self.stopped)))
        why = await asyncio.shield(self.ended)
        return Response(_UNUSABLE if isinstance(why, UsageError) else 200, str(why).encode())


async def _main(end: socket.socket, options: EmbeddedOptions) -> None:
    """Run the components until asked to stop; exit at once when the connection to the server is lost before that."""
    from strato.client.link import connect

    components = _ComponentsHandler()
    link = await connect(end, components)
    lost = asyncio.ensure_future(link.closed.wait())
    lost.add_done_callback(lambda _: None if components.stop.is_set() else os._exit(1))
    try:
        await _run(options, link, components)
    except StratoError as error:
        components.ended.set_result(error)
        await lost  # the server reads the error by /end, then closes the link
    else:
        await asyncio.wait({lost}, timeout=_EXIT_SECONDS)  # the server closes the link once it has the count of pods
    finally:
        components.stop.set()
        lost.cancel()
        await link.close()


async def _run(options: EmbeddedOptions, server: Handler, components: _ComponentsHandler) -> None:
    from strato.cli.embedded.components import build
    from strato.cli.serving import collect_hardly, make_random, run_together, settle
    from strato.client.local import LocalCluster
    from strato.clock import SystemClock

    collect_hardly()
    built = build(
        options,
        lambda user: LocalCluster(server, user, uncommitted=True),
        SystemClock(),
        make_random(),
        components.metrics,
        lambda: components.how,
    )

    async def announce() -> None:
        components.ready.set_result(await built.ready())
        settle()
        await asyncio.Event().wait()

    members = [*((name, run()) for name, run in built.members), ("announcement", announce())]
    try:
        await run_together(members, components.stop)
    finally:
        await built.informers.stop()
        components.stopped.set_result(built.ended())


def main(arguments: list[str]) -> None:
    """Run the companion. Arguments: descriptors of the socket and of the lock, the server's pid, options as JSON."""
    from strato.cli.serving import configure_logging, run_loop
    from strato.node.sandbox.linux import die_with_parent

    end, lock, server, options = arguments
    for descriptor in (end, lock):
        os.set_inheritable(int(descriptor), False)
    die_with_parent()
    if os.getppid() != int(server):
        return  # the server died before `die_with_parent` took effect
    # Ctrl-C in a terminal signals both processes; only the server's acts on it, and asks this one to stop
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    configure_logging()
    decoded = msgspec.json.decode(options, type=EmbeddedOptions)
    run_loop(lambda: _main(socket.socket(fileno=int(end)), decoded))
    logging.shutdown()
    os._exit(0)  # all is written; the interpreter's own teardown would only delay the server


if __name__ == "__main__":
    main(sys.argv[1:])
