"""Components side by side: what ends them, and what is said of it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from strato.cli.serving import ComponentStopped, run_together
from strato.errors import UsageError


async def _forever() -> None:
    await asyncio.Event().wait()


async def _fault() -> None:
    raise KeyError("a fault of ours")


async def _refusal() -> None:
    raise UsageError("the file is missing")


async def test_a_fault_ends_all_and_the_log_says_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ComponentStopped, match="the scheduler stopped: KeyError"):
        await run_together([("node", _forever()), ("scheduler", _fault())], asyncio.Event())
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


async def test_what_a_user_did_wrong_is_said_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UsageError, match="the file is missing"):
        await run_together([("node", _forever()), ("scheduler", _refusal())], asyncio.Event())
    assert not caplog.records


async def test_a_stop_ends_all_quietly() -> None:
    stop = asyncio.Event()
    stop.set()
    await run_together([("node", _forever())], stop)
