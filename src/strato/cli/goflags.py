"""Flags as Go programs take them, so that Volcano's manifests and scripts need no editing.

Go's flags differ from click's in three points: a switch may carry its value (``--leader-elect=false``) and never takes
the next word, a short flag may be joined to its value by ``=`` (``-v=3``), and the literal word ``2>&1``, which
Volcano's manifests pass to its binaries, means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_SHELL_WORD = "2>&1"


class GoSwitch(click.Option):
    """A boolean that stands alone or with ``=true`` and ``=false``."""

    def make_metavar(self, ctx: click.Context) -> str:
        """Show no value in help, although the switch may have one."""
        return ""


class GoCommand(click.Command):
    """A command that takes its flags as Go's do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrite Go's forms as click's, then parse them."""
        return super().parse_args(ctx, spelled_out(self.params, filled_in(self.params, args)))


def switch(*names: str, **settings: Any) -> Callable[[F], F]:
    """Return an option of a `GoCommand` that is true when it stands alone."""
    settings.setdefault("default", False)
    return click.option(*names, cls=GoSwitch, type=bool, **settings)


def filled_in(params: Sequence[click.Parameter], args: Sequence[str], *, interspersed: bool = True) -> list[str]:
    """Return the arguments with its value added to each option that may stand alone and does."""
    options = {name: param for param in params if isinstance(param, click.Option) for name in param.opts}
    done: list[str] = []
    words = iter(args)
    for word in words:
        option = options.get(word)
        is_argument = word == "-" or not word.startswith("-")
        if word == "--" or (is_argument and not interspersed):
            return [*done, word, *words]
        if option is None or option.is_flag or option.count or isinstance(option, GoSwitch):
            done.append(word)
        elif option._flag_needs_value:  # noqa: SLF001 -- click has no other word for it
            done.append(f"{max(option.opts, key=len)}={option.flag_value}")
        else:
            done += [word, *_next(words)]
    return done


def spelled_out(params: Sequence[click.Parameter], args: Sequence[str]) -> list[str]:
    """Return the arguments with a value for every switch, and ``-f=value`` split into two words."""
    switches = {
        name for param in params if isinstance(param, GoSwitch) for name in (*param.opts, *param.secondary_opts)
    }
    valued = {
        name
        for param in params
        if isinstance(param, click.Option) and not param.is_flag and not isinstance(param, GoSwitch)
        for name in param.opts
    }
    done: list[str] = []
    words = iter(args)
    for word in words:
        flag, equals, value = word.partition("=")
        if word == _SHELL_WORD:
            continue
        if word == "--":
            done += [word, *words]
        elif flag in switches:
            done += [flag, value if equals else "true"]
        elif equals and flag in valued and not flag.startswith("--"):
            done += [flag, value]
        elif word in valued:
            done += [word, *_next(words)]
        else:
            done.append(word)
    return done


def _next(words: Any) -> list[str]:
    return [word for word in [next(words, None)] if word is not None]
