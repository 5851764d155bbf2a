"""The name of a verb's object: given after a flag, as for ``vcctl``, or as a bare word, as for ``kubectl``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from strato.cli.inputs import NAME

F = TypeVar("F", bound=Callable[..., Any])

BARE: Final = "bare_name"
"""Name of the parameter that takes the bare word."""


class _NameOption(click.Option):
    """An option whose value may also be given as a bare word; if required, it must be given in one of the two ways."""

    def __init__(self, *args: Any, is_needed: bool, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._is_needed = is_needed

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Take the value from the flag or from the bare word.

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
        """Check that a name was given.

        Raises:
            click.MissingParameter: None was given.
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
        flag: The short flag.
        help: What it names.
        required: Whether a name must be given; otherwise a missing one is "".
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
