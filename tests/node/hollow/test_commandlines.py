"""What is known of a command line: one row for each rule of docs/hollow-nodes.md."""

from __future__ import annotations

import math

import pytest

from strato.node.hollow.commandlines import run_of

SCRIPTS: list[tuple[str, float | None, int, bool]] = [
    # script, seconds (None: not understood), exit code, whether SIGTERM ends it
    ("sleep 2", 2.0, 0, False),
    ("sleep 1m 0.5s", 60.5, 0, False),
    ("sleep infinity", math.inf, 0, False),
    ("exec /usr/bin/sleep 7;", 7.0, 0, False),
    ("sleep 5 && exit 3", 5.0, 3, False),
    ("sleep 5; exit 259", 5.0, 3, False),
    ("sleep 5\nexit 3\n", 5.0, 3, False),
    ("echo begin && sleep 5 && echo end", 5.0, 0, False),
    ("echo 'a; sleep 9' > /tmp/x 2>&1; sleep 1", 1.0, 0, False),
    ("false || exit 4", 0.0, 4, False),
    ("true && sleep 1 || exit 9", 1.0, 0, False),
    ("false; sleep 2", 2.0, 0, False),
    ("set -e; false; sleep 2", 0.0, 1, False),
    ("set -e; false || true; sleep 2", 2.0, 0, False),
    ("sleep 9 &\nsleep 3", 3.0, 0, False),
    ("sleep 3 | tee log", 3.0, 0, False),
    ("echo hi # sleep 5\nsleep 2\nexit", 2.0, 0, False),
    ("sh -c 'sleep 2; exit 1'", 2.0, 1, False),
    ("A=1 B=2 sleep 2", 2.0, 0, False),
    ("nginx", math.inf, 0, True),
    ("nginx -g 'daemon off;'", math.inf, 0, True),
    ("mkdir -p /var/run/sshd; /usr/sbin/sshd -D;", math.inf, 0, True),
    ("tail -f /dev/null", math.inf, 0, False),
    ("while true; do date; sleep 5; done", math.inf, 0, False),
    ("trap 'exit 0' TERM; while :; do sleep 1; done", math.inf, 0, True),
    ("trap '' TERM; sleep 9", 9.0, 0, False),
    ("trap 'exit 0' TERM; sleep 9", 9.0, 0, True),
    ("python prepare.py && sleep 2", 2.0, 0, False),
    ("echo hello", 0.0, 0, False),
    ("", 0.0, 0, False),
    ("./server", None, 0, False),
    ("cd /srv && ./server", None, 0, False),
    ("while true; do test -e /stop && break; done", None, 0, False),
    ("for i in 1 2; do sleep 1; done", None, 0, False),
    ("if true; then sleep 1; fi", None, 0, False),
    ("(sleep 3)", None, 0, False),
    ("sleep $SECONDS", None, 0, False),
    ("sleep $(cat /time)", None, 0, False),
    ("exit $CODE", None, 0, False),
    ("echo 'never closed; sleep 1", None, 0, False),
    ("sleep 1 && " * 500 + "true", None, 0, False),
    ('sh -c "sh -c \'sh -c \\"sh -c x\\"\'"', None, 0, False),
]


@pytest.mark.parametrize(("script", "seconds", "code", "heeds"), SCRIPTS, ids=[row[0][:40] for row in SCRIPTS])
def test_scripts(script: str, seconds: float | None, code: int, heeds: bool) -> None:
    run = run_of(["sh", "-c", script])
    assert (None if run is None else tuple(run)) == (None if seconds is None else (seconds, code, heeds))


@pytest.mark.parametrize(
    ("argv", "seconds", "code"),
    [
        (["sleep", "2"], 2.0, 0),
        (["/bin/sleep", "inf"], math.inf, 0),
        (["true"], 0.0, 0),
        (["/bin/false"], 0.0, 1),
        (["nginx", "-g", "daemon off;"], math.inf, 0),
        (["python3", "-m", "http.server", "8080"], math.inf, 0),
        (["bash", "-lc", "sleep 2"], 2.0, 0),
        (["/bin/sh", "-e", "-c", "false\nsleep 2"], 0.0, 1),
        (["bash", "-eo", "pipefail", "-c", "sleep 2"], 2.0, 0),
        (["sh", "-c", "sleep 2", "name"], 2.0, 0),
        (["timeout", "5", "work"], None, 0),
        (["sh", "-x", "sleep 2"], None, 0),
        (["sh", "-c"], None, 0),
        (["sh"], None, 0),
        (["sleep"], None, 0),
        (["sleep", "1e3"], None, 0),
        (["sleep", "-1"], None, 0),
        ([], None, 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_command_lines(argv: list[str], seconds: float | None, code: int) -> None:
    run = run_of(argv)
    assert (None if run is None else run[:2]) == (None if seconds is None else (seconds, code))
