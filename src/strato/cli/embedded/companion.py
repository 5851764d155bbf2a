"""The second process of the embedded cluster, where controllers, scheduler and nodes run beside the API server.

Two processors then work at once: one answers requests, the other one decides. The server's process starts it before
anything else, so that both load their code at the same time; a pair of sockets joins them (`strato.client.link`). It
dies with the server's process: when it is told to stop it ends its components, and if that process is killed the kernel
kills it too. If it dies alone the server's process starts it again: containers outlive their node, and everything else
is in the API.
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
"""How long a scrape of the server waits for the other process; a scraper's own patience is ten."""
_UP = b"""# HELP strato_parts_up Whether the process of controllers, scheduler and nodes answers.
# TYPE strato_parts_up gauge
strato_parts_up %d
"""
_EXIT_SECONDS = 5.0
_UNUSABLE = 422
"""Status of the answer when they ended because of what a person gave them."""
_RESTARTS = 5
"""So often in `_RESTARTS_WITHIN_SECONDS` the process is started again; what fails more often ends the cluster."""
_RESTARTS_WITHIN_SECONDS = 600.0
_RESTART_AFTER_SECONDS = 1.0

_log = logging.getLogger(__name__)


class ComponentsFailed(StratoError):
    """A controller, the scheduler or a node ended, or their process did."""


class Companion:
    """The server's hold on the other process.

    Args:
        options: What that process starts.
        lock: Descriptor of the home's lock, which that process holds too: it is free when both are gone.
    """

    def __init__(self, options: EmbeddedOptions, lock: int) -> None:
        self.ending: Ending = lambda: None
        """Says how the pods end when the components are told to."""
        self.ended = 0
        """How many did."""
        self._options, self._lock = options, lock
        self._restarts: deque[float] = deque(maxlen=_RESTARTS)
        """When it was started again."""
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
        """Answer what the process asks, from now on."""
        from strato.client.link import connect

        self._link = await connect(self._end, server)

    async def hang_up(self) -> None:
        """Let the process end at once: there will be no server to answer it."""
        await self._link.close()

    async def ready(self) -> dict[str, Any] | None:
        """Wait until the components are ready; return this machine's node summary."""
        try:
            response = await self._link.handle(Request("GET", _READY))
        except Unavailable:
            await asyncio.Event().wait()  # `run` says why
        self._was_ready = True
        summary: dict[str, Any] | None = msgspec.json.decode(response.body)
        return summary

    async def metrics(self) -> bytes:
        """Return the components' metrics; while they do not answer (stopped, busy, not started), only that."""
        body = b""
        if self._link is not None and not self._link.closed.is_set():
            with contextlib.suppress(ApiError, TimeoutError):
                async with asyncio.timeout(_METRICS_SECONDS):
                    response: Response = await self._link.handle(Request("GET", _METRICS))
                    body = response.body
        return body + _UP % bool(body)

    async def run(self, server: Handler, clock: Clock) -> None:
        """Keep the components running; end them when cancelled, while the server still answers what they do last.

        Args:
            server: Answers what they ask.
            clock: Times restarts.

        Raises:
            ComponentsFailed: They ended by themselves: before they were ready, or again and again.
            UsageError: They cannot use what they were given.
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
        """Make sure that the process is gone; one that was told to stop gets a moment for its last steps."""
        if self._link is None:
            self._process.kill()
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._end.close()


class _ComponentsHandler(Handler):
    """What the server's process asks this one; a `Handler`."""

    def __init__(self) -> None:
        from strato.metrics import Registry

        self.metrics = Registry()
        self.stop = asyncio.Event()
        self.how: Stop | None = None
        self.stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """How many pods were ended."""
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
    """Run the components until told to stop; when the server's process is gone there is nothing left to finish."""
    from strato.client.link import connect

    components = _ComponentsHandler()
    link = await connect(end, components)
    lost = asyncio.ensure_future(link.closed.wait())
    lost.add_done_callback(lambda _: None if components.stop.is_set() else os._exit(1))
    try:
        await _run(options, link, components)
    except StratoError as error:
        components.ended.set_result(error)
        await lost  # it is asked for, and then the server hangs up
    else:
        await asyncio.wait({lost}, timeout=_EXIT_SECONDS)  # likewise, once it knows how many pods have ended
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
    """Be that process. Arguments: descriptors of the socket and of the lock, the server's process, options as JSON."""
    from strato.cli.serving import configure_logging, run_loop
    from strato.node.sandbox.linux import die_with_parent

    end, lock, server, options = arguments
    for descriptor in (end, lock):
        os.set_inheritable(int(descriptor), False)
    die_with_parent()
    if os.getppid() != int(server):
        return  # it died before we could ask to die with it
    # a terminal's Ctrl-C reaches the whole group; the server's process decides what follows
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    configure_logging()
    decoded = msgspec.json.decode(options, type=EmbeddedOptions)
    run_loop(lambda: _main(socket.socket(fileno=int(end)), decoded))
    logging.shutdown()
    os._exit(0)  # everything is written; who waits for us need not wait for the interpreter to take itself apart


if __name__ == "__main__":
    main(sys.argv[1:])
