"""Groups of verbs over one kind (``strato job …``) and how they word failures."""

from __future__ import annotations

from typing import Any

import click

from strato.cli.goflags import GoCommand
from strato.errors import StratoError, UsageError, shortened


class VerbFailed(StratoError):
    """A verb failed; the message is worded as Volcano's (spec volcano-cli A1): ``Failed to run job: …``."""


_SPOKEN = {"logs": "show logs of", "top": "show use of", "tree": "show tree of", "wait": "wait for"}
"""Text for commands whose name is no verb, for the message of a failure."""


class VerbGroup(click.Group):
    """A group like ``job``: failures name the verb and the group, flags are written as Go's or as click's."""

    command_class = GoCommand

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except StratoError as error:
            verb = ctx.invoked_subcommand or ""
            line = UnusableLine if isinstance(error, UsageError) else FailureLine
            raise line(f"Failed to {_SPOKEN.get(verb, verb)} {ctx.info_name}: {error}") from error


class FailureLine(click.ClickException):
    """A failure whose message is a complete line on standard error; exit status 1."""

    def show(self, file: Any = None) -> None:
        """Print the line as it is."""
        click.echo(shortened(self.message), err=True)


class UnusableLine(FailureLine):
    """The same for unusable input of the user; exit status 2."""

    exit_code = UsageError.exit_code
