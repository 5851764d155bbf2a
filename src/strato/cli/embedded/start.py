"""``strato up --foreground``: start the companion, then serve; both load their code at the same time."""

from __future__ import annotations

from dataclasses import replace

import click
import msgspec

from strato.cli.embedded.companion import Companion
from strato.cli.embedded.options import EmbeddedOptions
from strato.cli.embedded.stopping import clear_machine, down_message
from strato.cli.homelock import STOPPING, HomeLock, Interruption
from strato.cli.serving import configure_logging, run_loop


def run_embedded(options: EmbeddedOptions, lock: HomeLock, interruption: Interruption, *, background: bool) -> None:
    """Serve until a signal, then end the pods too. After a failure or crash the pods' containers run on.

    Args:
        options: The cluster's options.
        lock: The home's lock, which the companion inherits; it frees when both have exited.
        interruption: Has noted signals since the command began.
        background: Whether the process that started this one tells the user how the start went.

    Raises:
        StratoError: Something could not start, or ended by itself.
    """
    configure_logging()
    home = options.home
    lock.note("up", msgspec.to_builtins(options))
    home.write_pid()
    companion = Companion(options, lock.descriptor) if options.processes > 1 else None
    ended = 0
    try:
        from strato.cli.embedded.serve import serve

        ended = run_loop(lambda: serve(options, companion, lock, interruption, background=background))
    finally:
        if companion is not None:
            companion.end()
        if interruption.signal:
            lock.note(STOPPING)
            stop = replace(home.read_stop(), ended=ended)
            clear_machine(home, stop)
            click.echo(down_message(stop), err=True)
            home.clear_run_files()
            if stop.is_awaited:  # 'strato down' waits for the lock, reads the result and deletes the file
                home.write_stop(stop)
        home.pid_file.unlink(missing_ok=True)
        home.ready_file.unlink(missing_ok=True)
