"""``strato port-forward``: forward connections from this machine's ports to ports of a pod."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from strato.api import catalog
from strato.cli.connect import with_cluster
from strato.cli.podtargets import find_pod
from strato.client.cluster import Json
from strato.errors import ApiError, UsageError

if TYPE_CHECKING:
    from strato.client.http import HttpCluster
    from strato.http.websocket import WebSocket

_PROTOCOLS = ("v4.channel.k8s.io",)
_READ_BYTES = 32 * 1024
_HEADER_BYTES = 2
"""The server begins each channel with the port's number in two bytes."""


@click.command("port-forward")
@click.argument("target")
@click.argument("ports", nargs=-1, required=True)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@click.option("--address", default="127.0.0.1", show_default=True, help="This machine's address to listen on.")
@click.pass_context
def port_forward(ctx: click.Context, target: str, ports: tuple[str, ...], namespace: str, address: str) -> None:
    """Forward PORTS of this machine to TARGET until interrupted: a pod's name, job/NAME or svc/NAME.

    A port is LOCAL:REMOTE, REMOTE alone for the same number here, or :REMOTE for a free one. REMOTE may be a port's
    name; of a service it is the service's port.
    """
    with_cluster(ctx, partial(_forward, namespace=namespace, target=target, ports=ports, address=address))


async def _forward(cluster: HttpCluster, *, namespace: str, target: str, ports: Sequence[str], address: str) -> None:
    pod = await find_pod(cluster, namespace, target, services=True)
    service = None
    kind, _, name = target.rpartition("/")
    if kind.startswith("s"):
        service = await cluster.get(catalog.SERVICE, name, namespace)
    pairs = [_pair(text, pod, service) for text in ports]
    path = catalog.POD.path(namespace, pod["metadata"]["name"], "portforward")
    async with contextlib.AsyncExitStack() as stack:
        for local, remote in pairs:
            try:
                server = await asyncio.start_server(partial(_serve, cluster, path, remote), address, local)
            except OSError as error:
                raise UsageError(f"cannot listen on {address}:{local}: {error.strerror or error}") from error
            await stack.enter_async_context(server)
            port = server.sockets[0].getsockname()[1]
            click.echo(f"forwarding {address}:{port} to port {remote} of pod {pod['metadata']['name']}")
        await asyncio.Event().wait()


def _pair(text: str, pod: Json, service: Json | None) -> tuple[int, int]:
    """Return the local and the remote port that a word names."""
    left, colon, right = text.partition(":")
    remote = right if colon else left
    number = _of_service(remote, pod, service) if service is not None else _of_pod(remote, pod)
    local = left if colon else (remote if remote.isdigit() else str(number))
    if colon and not left:
        local = "0"
    if not (local.isascii() and local.isdigit() and int(local) < 65536):
        raise UsageError(f"{text!r}: {left!r} is no port of this machine; write LOCAL:REMOTE, 8080:80 say")
    return int(local), number


def _of_pod(remote: str, pod: Json) -> int:
    if remote.isascii() and remote.isdigit() and 0 < int(remote) < 65536:
        return int(remote)
    found = {
        port["name"]: int(port["containerPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if port.get("name")
    }
    if remote not in found:
        names = f"; its ports with names are {', '.join(found)}" if found else ""
        raise UsageError(
            f"{remote!r} is no port of pod {pod['metadata']['name']}: write a number from 1 to 65535{names}"
        )
    return found[remote]


def _of_service(remote: str, pod: Json, service: Json) -> int:
    ports: list[dict[str, Any]] = service["spec"].get("ports") or []
    for port in ports:
        if remote in (str(port["port"]), port.get("name")):
            return _of_pod(str(port.get("targetPort") or port["port"]), pod)
    known = ", ".join(str(port["port"]) for port in ports)
    raise UsageError(f"service {service['metadata']['name']} has no port {remote!r}; it has {known}")


async def _serve(
    cluster: HttpCluster, path: str, remote: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Forward one connection over a WebSocket of its own."""
    try:
        query = {"ports": [str(remote)]}
        await cluster.over_websocket(path, query, _PROTOCOLS, partial(_carry, reader=reader, writer=writer))
    except ApiError as error:
        click.echo(f"error: {error}", err=True)
    finally:
        writer.close()


async def _carry(
    socket: WebSocket, protocol: str, *, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy both ways: channel 0 has data, channel 1 errors."""
    from strato.http.websocket import first_of

    del protocol

    async def outward() -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                await socket.send(b"\0" + data)
            await asyncio.Event().wait()  # the protocol cannot half-close: wait until the pod closes the connection

    async def inward() -> None:
        channel, problem, skipped = -1, b"", {0: 0, 1: 0}
        with contextlib.suppress(OSError):
            while (part := await socket.receive()) is not None:
                data = part.data
                if part.is_first:
                    channel, data = (data[0] if data else -1), data[1:]
                if channel not in skipped:
                    continue
                cut = min(_HEADER_BYTES - skipped[channel], len(data))
                skipped[channel] += cut
                data = data[cut:]
                if channel == 1:
                    problem = (problem + data)[:1000]
                elif data:
                    writer.write(data)
                    await writer.drain()
        if problem:
            click.echo(f"error: {problem.decode(errors='replace')}", err=True)

    await first_of(outward(), inward())
