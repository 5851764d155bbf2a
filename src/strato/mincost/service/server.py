"""Listen for gRPC (insecure, as Poseidon expects). Needs the package ``grpcio``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from strato.errors import UsageError
from strato.mincost.service.codec import Message, WireError, decode, encode
from strato.mincost.service.scheduler import FirmamentService, Values

SERVICE = "firmament.FirmamentScheduler"
DEFAULT_ADDRESS = "127.0.0.1:9090"


async def serve(service: FirmamentService, address: str = DEFAULT_ADDRESS) -> None:
    """Serve until cancelled. Requests are answered one at a time, in order of arrival.

    Raises:
        UsageError: ``grpcio`` is not installed, or the address is taken.
    """
    server, _ = await start(service, address)
    try:
        await server.wait_for_termination()
    finally:
        await server.stop(1.0)


async def start(service: FirmamentService, address: str = DEFAULT_ADDRESS) -> tuple[Any, int]:
    """Start serving; return the server and its port.

    Raises:
        UsageError: ``grpcio`` is not installed, or the address is taken.
    """
    try:
        import grpc  # type: ignore[import-untyped,import-not-found,unused-ignore] # an extra, without type stubs
    except ImportError as err:
        raise UsageError("the flow service needs the package grpcio: pip install 'strato[flow]'") from err
    turn = asyncio.Lock()
    methods: Mapping[str, tuple[Callable[[Values], Values], Message, Message]] = service.methods()

    def handler(name: str) -> Any:
        answer, request_type, reply_type = methods[name]

        async def call(request: bytes, context: Any) -> bytes:
            try:
                async with turn:
                    return encode(answer(decode(request, request_type)), reply_type)
            except WireError as err:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{name}: {err}")
            except UsageError as err:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{name}: {err}")
            return b""

        return grpc.unary_unary_rpc_method_handler(call)

    # without this a second server on the same port would silently get half of the requests
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {n: handler(n) for n in methods}),))
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as err:
        raise UsageError(f"cannot listen on {address}: {err}") from err
    await server.start()
    return server, port
