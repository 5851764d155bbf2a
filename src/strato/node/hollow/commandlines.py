"""Predict a command line without running it: how long it takes, how it ends, what it does on SIGTERM. Pure.

The module knows ``sleep``, some commands that end at once, well-known servers, and shell scripts that combine these
with ``;``, ``&&``, ``||``, line breaks and pipes. docs/hollow-nodes.md has the rules.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from strato.lru import memoised

_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_INSTANT_WORDS: Final = """
true : echo printf export cd set unset trap mkdir touch date cat ls hostname env pwd wait rm cp mv ln chmod chown umask
ulimit id whoami uname nproc df free which test [ read shift
"""
_SERVER_WORDS: Final = """
nginx httpd httpd-foreground apache2 apache2ctl apachectl caddy haproxy envoy traefik redis-server valkey-server
memcached mysqld mariadbd postgres mongod etcd sshd rabbitmq-server registry coredns prometheus grafana-server pause
"""
_INSTANT: Final = frozenset(_INSTANT_WORDS.split())
"""Commands that end at once, successfully."""
SERVERS: Final = frozenset(_SERVER_WORDS.split())
"""Programs that run until they get a signal."""
_PREFIXES: Final = frozenset({"exec", "nohup", "time", "command", "env", "tini", "dumb-init", "--"})
_KEYWORDS: Final = frozenset({"if", "then", "elif", "for", "while", "until", "case", "select", "function", "{", "!"})
_ENDLESS: Final = (("while", "true"), ("while", ":"), ("until", "false"))
_UNIT_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_REDIRECTION: Final = re.compile(r"""\d?>&\d|&?\d?>>?\s*[^\s;&|'"()]+|<\s*[^\s;&|'"()<]+""")
_SEPARATORS: Final = ";&|()\n"
_COMMENT: Final = re.compile(r"""(?m)(?:^|(?<=[\s;]))#[^\n'"]*$""")
_DEEPEST: Final = 3
"""Most levels of shells within shells."""
_LONGEST_SCRIPT: Final = 4096
"""Longest script that is analysed, in characters."""
_FAILED: Final = 1


class CommandRun(NamedTuple):
    """How a command runs."""

    seconds: float
    """Run time; infinite when only a signal ends it."""
    exit_code: int = 0
    heeds_sigterm: bool = False
    """Whether SIGTERM ends it. The first process of a container is not ended by a signal that it does not handle, and
    neither ``sleep`` nor a shell without a trap does."""


def run_of(argv: Sequence[str]) -> CommandRun | None:
    """Return how a command line runs; None when it is not understood, or empty."""
    return _run_of("\0".join(argv)) if argv else None


@memoised(1 << 20)
def _run_of(words: str) -> CommandRun | None:
    """Memoised part of `run_of`; ``words`` is the command line joined by NUL, which no argument contains."""
    found = _command(words.split("\0"), 0)
    return found.run if found is not None and found.is_known else None


class _Command(NamedTuple):
    """One command of a script."""

    run: CommandRun
    is_known: bool = True
    """False for an unknown command, which is assumed to end at once, successfully."""
    ends: bool = False
    """Whether the script ends with this command (``exit``, ``exec``)."""
    decides: bool = False
    """Whether it determines the script's run time or status: it waits, sets an exit status or serves."""


def _command(words: Sequence[str], depth: int) -> _Command | None:
    """Return how a simple command runs; None when its words do not determine it."""
    ends = bool(words) and words[0] == "exec"
    before = itertools.takewhile(lambda word: word in _PREFIXES or _ASSIGNMENT.fullmatch(word), words)
    words = words[sum(1 for _ in before) :]
    if not words:
        return _Command(CommandRun(0.0))
    name, arguments = words[0].rsplit("/", 1)[-1], words[1:]
    if name == "sleep":
        seconds = _sleep_seconds(arguments)
        return None if seconds is None else _Command(CommandRun(seconds), ends=ends, decides=True)
    if name == "false":
        return _Command(CommandRun(0.0, _FAILED), ends=ends, decides=True)
    if name in SERVERS or (name.startswith("python") and arguments[:2] == ["-m", "http.server"]):
        return _Command(CommandRun(math.inf, heeds_sigterm=True), ends=True, decides=True)
    if name == "tail" and any(word in ("-f", "-F") for word in arguments):
        return _Command(CommandRun(math.inf), ends=True, decides=True)
    if name in _SHELLS:
        run = _shell(arguments, depth)
        return None if run is None else _Command(run, ends=ends, decides=True)
    return _Command(CommandRun(0.0), is_known=name in _INSTANT, ends=ends)


def _sleep_seconds(arguments: Sequence[str]) -> float | None:
    total = 0.0
    for word in arguments:
        if word in ("inf", "infinity"):
            return math.inf
        unit = _UNIT_SECONDS.get(word[-1:])
        number = word if unit is None else word[:-1]
        if not re.fullmatch(r"[0-9]++(?:\.[0-9]*+)?|\.[0-9]+", number):
            return None
        total += float(number) * (unit or 1.0)
    return total if arguments else None


def _shell(arguments: Sequence[str], depth: int) -> CommandRun | None:
    """Return how ``sh -c SCRIPT`` runs."""
    stops_at_failure = False
    for at, word in enumerate(arguments):
        if word in ("errexit", "pipefail") or word.startswith("--"):
            stops_at_failure = stops_at_failure or word == "errexit"
        elif not re.fullmatch(r"[-+][a-zA-Z]+", word):
            return None
        else:
            stops_at_failure = stops_at_failure or "e" in word
            if "c" in word:
                return _script(arguments[at + 1], depth + 1, stops_at_failure) if len(arguments) > at + 1 else None
    return None


def _script(text: str, depth: int, stops_at_failure: bool) -> CommandRun | None:
    """Return how a script runs; unknown commands take no time, provided that another command decides."""
    steps = _steps(text) if depth <= _DEEPEST else None
    if steps is None:
        return None
    seconds, status, heeds, decides, all_known = 0.0, 0, False, False, True
    for number, (before, words, after) in enumerate(steps):
        if (before == "&&" and status) or (before == "||" and not status):
            continue
        if tuple(words[:2]) in _ENDLESS:
            rest = {word for _, step, _ in steps[number:] for word in step}
            return CommandRun(math.inf, 0, heeds) if not rest & {"break", "exit", "return"} else None
        if words[0] in _KEYWORDS:
            return None
        if words[0] in ("exit", "return"):
            status = _exit_status(words[1:], status)
            return None if status < 0 else CommandRun(seconds, status, heeds)
        if words[:1] == ["set"] and any(re.fullmatch(r"-[a-df-z]*+e[a-z]*", word) for word in words[1:]):
            stops_at_failure = True
        if words[0] == "trap" and {"TERM", "SIGTERM", "15"} & set(words):
            heeds = len(words) > 1 and words[1] not in ("", "-")
        found = _command(words, depth)
        if found is None:
            return None
        all_known, decides = all_known and found.is_known, decides or found.decides
        if after == "&":  # in the background
            continue
        seconds, status = seconds + found.run.seconds, found.run.exit_code
        if found.ends or math.isinf(seconds):
            heeds = found.run.heeds_sigterm if found.ends else heeds or found.run.heeds_sigterm
            break
        if status and stops_at_failure and after not in ("&&", "||"):
            break
    return CommandRun(seconds, status, heeds) if decides or all_known else None


def _exit_status(words: Sequence[str], last: int) -> int:
    """Return the status of ``exit``; -1 when it is not known before the script runs."""
    if not words or words == ["$?"]:
        return last
    return int(words[0]) % 256 if words[0].isdecimal() and len(words[0]) < 10 else -1


def _steps(text: str) -> list[tuple[str, list[str], str]] | None:
    """Return the commands of a script, each with its operators before and after; None for unsupported syntax."""
    if len(text) > _LONGEST_SCRIPT or "`" in text or "$(" in text or "<<" in text:
        return None
    plain = _REDIRECTION.sub(" ", _COMMENT.sub("", text.replace("\\\n", " ")))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    steps: list[tuple[str, list[str], str]] = []
    before, words = "", list[str]()
    try:
        for token in (*lexer, "\n"):
            if not token or token.strip(_SEPARATORS):
                words.append(token)
                continue
            separator = token.strip("\n") or "\n"
            if separator not in (";", "&&", "||", "|", "&", "\n"):
                return None
            if words:
                steps.append((before, words, separator))
                before, words = separator, []
    except ValueError:  # an unclosed quotation
        return None
    return steps
