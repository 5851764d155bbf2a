"""``strato up --foreground``: the other process first, then this one, so that both load their code at the same time."""

from __future__ import annotations

from strato.cli.embedded.companion import Companion
from strato.cli.embedded.options import EmbeddedOptions
from strato.cli.serving import configure_logging, run_loop


def run_embedded(options: EmbeddedOptions) -> None:
    """Serve until a signal.

    Raises:
        StratoError: Something could not start, or ended by itself.
    """
    configure_logging()
    options.home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    companion = Companion(options) if options.processes > 1 else None
    try:
        from strato.cli.embedded.serve import serve

        run_loop(lambda: serve(options, companion))
    finally:
        if companion is not None:
            companion.end()
