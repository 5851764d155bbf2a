"""Who owns a home: the lock, what it says of its owner, and the logs beside it."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strato.cli.embedded import background, stopping
from strato.cli.embedded.options import EmbeddedOptions, differences
from strato.cli.hollowoptions import HollowOptions
from strato.cli.home import Home, Stop
from strato.cli.homelock import POLL_SECONDS, HomeLock, Interruption, Owner, end_owner, is_ending, owner_of
from strato.cli.imageoptions import ImageOptions
from strato.cli.logrotation import KEPT_LOGS, keep_short, logs_of, rotate
from strato.cli.main import main
from strato.cli.storage import StorageOptions
from strato.clock import VirtualClock, run_virtual
from strato.errors import UsageError

HOLDER = """
import sys
from pathlib import Path
from strato.cli.homelock import HomeLock
lock = HomeLock.take(Path(sys.argv[1]))
lock.note("up", {"port": 1})
print("held", flush=True)
input()
"""


DYING = """
import ctypes, sys, threading
from pathlib import Path
from strato.cli.home import Home
from strato.cli.homelock import HomeLock
home = Home(Path(sys.argv[1]))
lock = HomeLock.take(home.lock)
lock.note("up")
home.write_ready({"address": "https://127.0.0.1:1", "node": None})

def linger():
    while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
        pass
    print("gone", flush=True)
    input()

threading.Thread(target=linger).start()
ctypes.CDLL(None).syscall(60, 0)  # ends this thread alone
"""
"""Holds a home as a cluster does that was killed while a thread of it is still in the kernel."""


def test_a_lock_is_of_one_process_until_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "strato.lock"
    assert owner_of(path) is None
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert HomeLock.take(path) is None
        owner = owner_of(path)
        assert owner == Owner(holder.pid, "up", {"port": 1}, holder.pid)
        assert not end_owner(path, Owner(os.getpid(), "up"), signal.SIGKILL)  # not the owner
        assert end_owner(path, owner, signal.SIGKILL)
        holder.wait()
    assert owner_of(path) is None  # what the file says is of somebody who is gone
    lock = HomeLock.take(path)
    assert lock is not None
    lock.release()


def test_a_lock_lives_as_long_as_the_last_process_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "strato.lock"
    lock = HomeLock.take(path)
    assert lock is not None
    lock.note("up")
    heir = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(lock.descriptor,))
    lock.release()
    assert HomeLock.take(path) is None
    heir.communicate(b"")
    assert owner_of(path) is None


def test_a_lock_whose_file_was_removed_is_not_one(tmp_path: Path) -> None:
    path = tmp_path / "strato.lock"
    first = HomeLock.take(path)
    assert first is not None
    path.unlink()
    second = HomeLock.take(path)
    assert second is not None
    assert os.path.samestat(os.fstat(second.descriptor), path.stat())
    first.release()
    assert HomeLock.take(path) is None
    second.release()


def test_a_descriptor_that_is_not_the_lock_is_refused(tmp_path: Path) -> None:
    lock = HomeLock.take(tmp_path / "strato.lock")
    assert lock is not None
    with (tmp_path / "other").open("w") as other, pytest.raises(UsageError, match="is not that of"):
        HomeLock.inherit(lock.path, other.fileno())
    lock.release()


@pytest.mark.parametrize(
    "words",
    [["run", "apiserver", "--port", "0"], ["restore", "backup.tar"], ["down"], ["up", "--port", "0", "--foreground"]],
)
def test_what_needs_the_home_says_who_has_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with Home(tmp_path).held("doctor --salvage"), pytest.raises(SystemExit) as ended:
        main(["--home", str(tmp_path), *words])
    assert ended.value.code == 2
    assert f"process {os.getpid()} (strato doctor --salvage) works in {tmp_path}" in capfd.readouterr().err


def test_differing_options_are_named_as_they_are_typed() -> None:
    running = {"port": 6443, "hollow": {"cpu": "4"}, "storage": {"backup_dir": "", "backup_keep": 24}}
    wanted = {"port": 0, "hollow": {"cpu": "8"}, "storage": {"backup_dir": "", "backup_keep": 3}}
    assert differences(running, wanted) == [
        "--cpu: '4', not '8'",
        "--port: 6443, not 0",
        "--backup-keep: 24, not 3",
    ]
    assert differences(running, running) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"unknown": 1}'])
def test_how_to_stop_has_a_default(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path)
    assert home.read_stop() == Stop()
    home.stop_file.write_text(text)
    assert home.read_stop() == Stop()
    home.write_stop(Stop(keep_pods=True, ended=3))
    assert home.read_stop() == Stop(keep_pods=True, ended=3)


def test_who_gave_up_before_asking_has_not_said_how_to_stop(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gone = subprocess.Popen(["true"])
    gone.wait()
    for stop, counts in (
        (Stop(keep_pods=True, waiter=os.getpid()), True),
        (Stop(keep_pods=True, waiter=gone.pid), False),
        (Stop(keep_pods=True, waiter=gone.pid, is_asked=True), True),
    ):
        home.write_stop(stop)
        assert home.read_stop() == (stop if counts else Stop())
        assert stop.is_awaited == (stop.waiter == os.getpid())
    home.clear_run_files()
    assert list(tmp_path.iterdir()) == []


def test_the_last_logs_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "strato.log"
    for number in range(KEPT_LOGS + 3):
        rotate(log)
        log.write_text(f"{number}\n")
    assert [path.read_text() for path in logs_of(log)] == [f"{number}\n" for number in (7, 6, 5, 4, 3, 2)]
    log.write_text("")
    rotate(log)
    assert (tmp_path / "strato.log.1").read_text() == "6\n"  # one that says nothing pushes none away


def test_a_log_that_grows_is_cut_while_it_is_written(tmp_path: Path) -> None:
    log, clock = tmp_path / "strato.log", VirtualClock()
    with log.open("ab", buffering=0) as writer:

        async def grow() -> None:
            import asyncio

            task = asyncio.create_task(keep_short(log, clock, max_bytes=100))
            for number in range(50):
                writer.write(b"%09d\n" % number)
                await clock.sleep(10)
            task.cancel()

        run_virtual(clock, grow())
    sizes = [path.stat().st_size for path in logs_of(log)]
    assert max(sizes) <= 140
    newest = "".join(path.read_text() for path in reversed(logs_of(log)))
    assert newest.splitlines()[-1] == "000000049"


def test_an_owner_that_does_not_say_who_it_is_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, pauses = Home(tmp_path), list[float]()
    lock = HomeLock.take(home.lock)
    assert lock is not None

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        lock.release()

    monkeypatch.setattr(stopping.time, "sleep", sleep)
    taken, was_up = stopping.end_cluster(home, Stop())
    assert (taken is not None, was_up, pauses) == (True, False, [POLL_SECONDS])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names a system call by its number")
def test_a_killed_cluster_that_still_holds_its_lock_is_not_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path)
    command = [sys.executable, "-c", DYING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cluster:
        assert cluster.stdout is not None
        assert cluster.stdin is not None
        assert cluster.stdout.readline() == b"gone\n"
        assert home.running_pid() == home.ready()["pid"] == cluster.pid
        assert is_ending(cluster.pid)

        def sleep(_: float) -> None:
            cluster.communicate(b"\n")

        monkeypatch.setattr(background.time, "sleep", sleep)
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        lock = background.own_home(_options(tmp_path), Interruption(), foreground=False)
    assert lock is not None
    assert not home.ready()
    lock.release()
    assert capfd.readouterr().out == ""


def _options(home: Path) -> EmbeddedOptions:
    return EmbeddedOptions(
        home_path=str(home),
        hollow=HollowOptions(nodes="1", cpu="1", memory="1Gi"),
        sandbox=False,
        sandbox_cpus="",
        sandbox_memory="",
        images=ImageOptions(),
        pod_network="nat",
        pod_users="own",
        gpus="none",
        host="127.0.0.1",
        port=0,
        data_dir=str(home / "data"),
        in_memory=True,
        storage=StorageOptions(),
        scheduler_config="",
        processes=1,
    )


def test_a_process_is_ending_from_the_moment_it_is_killed() -> None:
    assert not is_ending(os.getpid())
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert not is_ending(process.pid)
        process.kill()
        assert is_ending(process.pid)
    assert is_ending(process.pid)
