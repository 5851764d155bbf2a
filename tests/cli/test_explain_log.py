"""``strato explain`` about the past: why something waited at an instant of a recorded log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from strato.cli.main import cli, main
from strato.testing.harness import Harness
from strato.testing.manifests import vcjob
from tests.sim.recording.recordings import record


async def story(h: Harness) -> None:
    """Sixteen cpus are taken from the beginning until 300 s; a gang of eight waits from 100 s to then."""
    await h.apply(vcjob("first", queue="a", min_available=16).task("w", 16, cpu="1", run_seconds=300))
    await h.clock.sleep(100.0)
    await h.apply(vcjob("second", queue="a", min_available=8).task("w", 8, cpu="1", run_seconds=60))
    await h.clock.sleep(400.0)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "cluster.log"
    record(path, story)
    return str(path)


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args), catch_exceptions=False)


def explained(log: str, target: str, at: str, *more: str) -> Any:
    done = run("explain", target, "--log", log, "--at", at, "-o", "json", *more)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_why_a_gang_waited_then(log: str) -> None:
    found = run("explain", "job/second", "--log", log, "--at", "+200s")
    assert found.exit_code == 0, found.output
    assert "the cluster is full: cpu 0 is free, 8 is asked for" in found.stdout
    assert f"next: strato explain job/second --log {log} --at +200s --fix\n" in found.stdout


def test_the_same_pod_at_another_instant_is_another_answer(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(log, "pod/second-w-0", "+330s")["state"] == "Running"
    with pytest.raises(SystemExit):
        main(["explain", "pod/second-w-0", "--log", log, "--at", "+50s"])
    assert "there is no pod 'second-w-0' in namespace default" in capsys.readouterr().err


def test_a_queue_and_a_fix_in_the_past(log: str) -> None:
    assert "second" in run("explain", "queue/a", "--log", log, "--at", "+200s").stdout
    assert run("explain", "job/second", "--log", log, "--at", "+200s", "--fix").exit_code == 0


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("--at", "+1s"), "--at INSTANT goes with --log LOG"),
        (("--log", "LOG", "-f", "state.yaml"), "-f and --log: the state comes from the one or the other"),
        (("--log", "LOG", "--at", "noon"), "'noon'"),
        (("--log", "missing.log"), "missing.log"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_bad_questions_are_refused_in_a_sentence(
    log: str, args: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["explain", "pod/x", *(log if arg == "LOG" else arg for arg in args)]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code in (1, 2)
    found = capsys.readouterr().err
    assert found.startswith("error: ")
    assert text in found
    assert found.count("\n") == 1
