"""``strato man``: manual pages, written from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from strato import __version__
from strato.cli.inputs import FOLDER
from strato.errors import UsageError


@click.command()
@click.argument("directory", type=FOLDER, default=Path("~/.local/share/man/man1"))
@click.pass_context
def man(ctx: click.Context, directory: Path) -> None:
    """Write a manual page for each command into DIRECTORY, by default where man looks for this user's."""
    place = directory.expanduser()
    place.mkdir(parents=True, exist_ok=True)
    written = 0
    cli = ctx.find_root().command
    with click.Context(cli, info_name="strato") as root:
        for name, text in pages(cli, root):
            try:
                (place / name).write_text(text)
            except OSError as error:
                raise UsageError(f"{place / name}: {error.strerror}") from error
            written += 1
    click.echo(f"{written} pages are in {place}; one of them: man {place / 'strato-job-run.1'}")


def pages(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Yield file name and text of the page of a command, then those of the commands below it."""
    yield ctx.command_path.replace(" ", "-") + ".1", page(command, ctx)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None and not below.hidden:
                with click.Context(below, parent=ctx, info_name=name) as inner:
                    yield from pages(below, inner)


def page(command: click.Command, ctx: click.Context) -> str:
    """Return the page of one command in roff."""
    name = ctx.command_path.replace(" ", "-")
    lines = [f'.TH {_quoted(name.upper())} 1 "" {_quoted(f"strato {__version__}")} "Strato"']
    lines += [".SH NAME", f"{_plain(name)} \\- {_plain(command.get_short_help_str(200))}"]
    words = " ".join(command.collect_usage_pieces(ctx))
    lines += [".SH SYNOPSIS", f"\\fB{_plain(ctx.command_path)}\\fR {_plain(words)}"]
    lines += [".SH DESCRIPTION", *_paragraphs(command.help or "")]
    options = [record for param in command.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
    if options:
        lines.append(".SH OPTIONS")
        for flags, text in options:
            lines += [".TP", f"\\fB{_plain(flags)}\\fR", _plain(text)]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for below in command.list_commands(ctx):
            found = command.get_command(ctx, below)
            if found is not None and not found.hidden:
                lines += [".TP", f"\\fB{_plain(below)}\\fR", _plain(found.get_short_help_str(200))]
    related = list(_ancestors(ctx)) or ["strato-up", "strato-job", "strato-queue", "strato-explain"]
    lines += [".SH SEE ALSO", ",\n".join(f"\\fB{_plain(other)}\\fR(1)" for other in related)]
    return "\n".join(lines) + "\n"


def _ancestors(ctx: click.Context) -> Iterator[str]:
    parent = ctx.parent
    while parent is not None:
        yield parent.command_path.replace(" ", "-")
        parent = parent.parent


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.replace("\b", "").strip())):
        if number:
            yield ".PP"
        yield _plain(" ".join(paragraph.split()))


def _plain(text: str) -> str:
    """Escape text for roff: its special characters, and dots and quotes that would begin a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", " ".join(escaped.split()))


def _quoted(text: str) -> str:
    return '"' + _plain(text).replace('"', "\\(dq") + '"'
