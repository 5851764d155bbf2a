"""The name that a verb is about: after its flag, as for ``vcctl``, or as a bare word, as for ``kubectl``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from strato.cli.inputs import NAME

F = TypeVar("F", bound=Callable[..., Any])

BARE: Final = "bare_name"
"""How the parameter of the bare word is called."""


class _NameOption(click.Option):
    """An option whose value may also come as a bare word; in one of the two ways it has to, if it is needed."""

    def __init__(self, *args: Any, is_needed: bool, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._is_needed = is_needed

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Take the value from where it was given.

        Raises:
            click.UsageError: It was given in both ways.
        """
        value, source = super().consume_value(ctx, opts)
        word = ctx.meta.get(BARE)
        if word is None:
            return value, source
        if source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"two names: {word!r}, and {value!r} after {self.opts[0]}", ctx)
        return word, ParameterSource.COMMANDLINE

    def process_value(self, ctx: click.Context, value: Any) -> str:
        """Check that there is a name.

        Raises:
            click.MissingParameter: There is none.
        """
        name = super().process_value(ctx, value)
        if isinstance(name, str):
            return name
        if self._is_needed and not ctx.resilient_parsing:
            raise click.MissingParameter(ctx=ctx, param_hint="NAME", param_type="argument")
        return ""


def object_name(flag: str, *, help: str, required: bool = True) -> Callable[[F], F]:
    """Add the parameter ``name``.

    Args:
        flag: The short one.
        help: What it names.
        required: Whether there must be one; else it is "" without.
    """

    def decorate(command: F) -> F:
        option = click.option(flag, "--name", cls=_NameOption, type=NAME, help=help, is_needed=required)
        word = click.argument(
            BARE, metavar="[NAME]", required=False, type=NAME, is_eager=True, expose_value=False, callback=_note
        )
        return word(option(command))

    return decorate


def _note(ctx: click.Context, _: click.Parameter, word: str | None) -> None:
    ctx.meta[BARE] = word
