"""Write ``docs/commands.md`` from the commands themselves: python tools/command_reference.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from strato.cli.goflags import GoSwitch

TARGET = Path(__file__).parents[1] / "docs" / "commands.md"

_HEAD = """# Commands

Written by `python tools/command_reference.py`; every command says the same with `--help`.

Before the verb: `--master URL`, `--kubeconfig FILE` and `--context NAME` choose the cluster, `--home DIR` (or
`STRATO_HOME`) the embedded one. Without them: `KUBECONFIG`, the embedded cluster of this machine when it runs,
`~/.kube/config`, the service account of the pod.

Results go to standard output, everything else to standard error. Exit status of every command: 0 done; 1 failed: what
it names is not there, the server refused or did not answer, there is no cluster, a job waited for did not complete; 2
unusable input: an option, a value or a file, found before a server is asked; 130 interrupted. Lists and views have
`-o table|wide|json|yaml|name` and `-w`, which goes on with what changes. `source <(strato completion bash)` completes
commands, flags and choices; zsh and fish likewise.

Volcano's names are installed too: `vcctl` with the groups `job`, `queue`, `pod`, `jobflow`, `jobtemplate` and
`version`, and `vsub`, `vjobs`, `vqueues`, `vcancel`, `vsuspend`, `vresume`. They take `-s`/`--master`,
`-k`/`--kubeconfig` and the logging flags anywhere, and fail in one line on standard output with status 255. As in
Volcano, `-n` is the namespace and `-N` the name in `job`, `jobflow` and `jobtemplate`; in `queue` `-n` is the name; in
the single-purpose tools `-n` is the name and `-N` the namespace.
"""


def reference() -> str:
    """Return the page."""
    from strato.cli.main import cli

    with click.Context(cli, info_name="strato") as ctx:
        return "\n".join([_HEAD, *_sections(cli, ctx)]) + "\n"


def _sections(group: click.Group, ctx: click.Context) -> Iterator[str]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None or command.hidden:
            continue
        with click.Context(command, parent=ctx, info_name=name) as inner:
            if isinstance(command, click.Group):
                yield f"## {inner.command_path}\n"
                yield f"{_text(command)}\n"
                yield from _sections(command, inner)
            else:
                yield from _section(command, inner, 2 if ctx.parent is None else 3)


def _section(command: click.Command, ctx: click.Context, level: int) -> Iterator[str]:
    words = " ".join(_argument(param) for param in command.params if isinstance(param, click.Argument))
    yield f"{'#' * level} {f'{ctx.command_path} {words}'.strip()}\n"
    yield f"{_text(command)}\n"
    if ctx.command_path.startswith("strato run "):
        yield "Flags: [components.md](components.md).\n"
        return
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    if options:
        yield "| option | default | meaning |\n| --- | --- | --- |"
        yield from map(_row, options)
        yield ""


# Not click's own wording: that changes with its versions.


def _argument(argument: click.Argument) -> str:
    name = (argument.name or "").upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _row(option: click.Option) -> str:
    names = " / ".join(filter(None, (", ".join(option.opts), ", ".join(option.secondary_opts))))
    return (
        f"| `{' '.join(filter(None, (names, _taken(option))))}` | {_default(option)} | {_escaped(option.help or '')} |"
    )


def _taken(option: click.Option) -> str:
    """Return what a value is called; nothing for a switch."""
    if option.is_flag or isinstance(option, GoSwitch):
        return ""
    if isinstance(option.type, click.Choice):
        return _escaped("|".join(map(str, option.type.choices)))
    return _escaped(option.metavar or (option.name or "").upper().replace("_", "-"))


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    if not option.show_default or option.default is None or (isinstance(option.default, bool) and not option.default):
        return ""
    shown = option.default
    return _escaped(str(shown).lower() if isinstance(shown, bool) else str(shown))


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _text(command: click.Command) -> str:
    return " ".join((command.help or "").split())


if __name__ == "__main__":
    TARGET.write_text(reference())
