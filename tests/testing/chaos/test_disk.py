"""What a crash leaves on the disk: all that was committed, and at most the commit under way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from strato.clock import VirtualClock, run_virtual
from strato.testing.chaos.disk import Disk


@pytest.mark.parametrize("seed", range(12))
def test_what_was_acknowledged_is_there_after_crashes(tmp_path: Path, seed: int) -> None:
    clock, random = VirtualClock(), Random(seed)
    disk = Disk(tmp_path, clock, Random(seed))

    async def main() -> None:
        known: dict[str, bytes] = {}
        for _ in range(6):
            store, journal = disk.open()
            found = {key: row.body for key, row in store.bucket("things").objects.items()}
            assert {key: found.get(key) for key in known} == known
            known = found
            writing = asyncio.create_task(journal.run())
            pending: dict[str, bytes] = {}
            for _ in range(random.randint(1, 30)):
                key = f"{store.next_revision()}"
                body = b"x" * random.randint(1, 3000)
                store.write("things", key, body)
                pending[key] = body
                if random.random() < 0.3:
                    assert await store.wait_durable() is None
                    known |= pending
                    pending.clear()
                elif random.random() < 0.3:
                    await clock.sleep(random.uniform(0, 0.004))
            writing.cancel()
            await asyncio.wait((writing,))
            acknowledged = store.published
            disk.crash()
            assert acknowledged <= disk.last_revision <= store.revision

    run_virtual(clock, main())


def test_a_full_disk_refuses_writes_and_takes_them_again(tmp_path: Path) -> None:
    clock = VirtualClock()
    disk = Disk(tmp_path, clock, Random(1))

    async def main() -> None:
        store, journal = disk.open()
        writing = asyncio.create_task(journal.run())
        journal.is_full = True
        store.write("things", "a", b"1")
        failure = await store.wait_durable()
        assert failure is not None
        assert "full" in str(failure)
        with pytest.raises(type(failure)):
            store.write("things", "b", b"1")
        journal.is_full = False
        await clock.sleep(2)
        store.write("things", "c", b"1")
        assert await store.wait_durable() is None
        assert sorted(store.bucket("things").objects) == ["a", "c"]
        writing.cancel()
        await asyncio.wait((writing,))
        journal.file.close()

    run_virtual(clock, main())
