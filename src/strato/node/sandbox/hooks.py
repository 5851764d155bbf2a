"""Lifecycle hooks of one container, as the kubelet runs them.

A command is a process of the container (`container`); an HTTP request goes from the node to the pod's address.
"""

from __future__ import annotations

import asyncio

from strato.api.core import Container, LifecycleHandler
from strato.errors import StratoError
from strato.node.sandbox.probes import answers
from strato.node.sandbox.runtime import ContainerRun, Runtime, RuntimeProblem

NO_LIMIT_SECONDS = 7 * 86400.0
"""Time limit of ``postStart`` hooks, in effect none, as with a kubelet; a hook ends with its container."""


class HookFailed(StratoError):
    """A hook has failed; the message says why."""


async def run_hook(
    hook: LifecycleHandler,
    spec: Container,
    run: ContainerRun,
    *,
    runtime: Runtime,
    address: str,
    timeout_seconds: float,
) -> None:
    """Run a hook to its end, its time limit, or the container's end.

    Raises:
        HookFailed: The hook did not succeed within its time limit.
    """
    if hook.sleep is not None:
        await asyncio.wait({run.ended}, timeout=min(float(hook.sleep.seconds), timeout_seconds))
    elif hook.exec is not None:
        command = list(hook.exec.command)
        try:
            code = await runtime.exec(run, command, timeout_seconds=timeout_seconds)
        except RuntimeProblem as err:
            raise HookFailed(str(err)) from err
        if code != 0:
            how = f"command {command!r} exited with {code}"
            raise HookFailed(how if code > 0 else f"command {command!r} did not end in {timeout_seconds:g} s")
    elif hook.http_get is not None:
        get = hook.http_get
        try:
            async with asyncio.timeout(timeout_seconds):
                succeeded = await answers(get, address, spec)
        except (OSError, ValueError) as err:
            raise HookFailed(f"httpGet {get.path}: {err or 'no answer in time'}") from err
        if not succeeded:
            raise HookFailed(f"httpGet {get.path}: an answer that is no success")
