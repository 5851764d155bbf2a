"""Entry points of the programs that have Volcano's names: its command line and its components."""

from __future__ import annotations

import sys
from typing import NoReturn


def vcctl() -> NoReturn:
    """Run ``vcctl``."""
    _tool("vcctl")


def vsub() -> NoReturn:
    """Run ``vsub``."""
    _tool("vsub")


def vjobs() -> NoReturn:
    """Run ``vjobs``."""
    _tool("vjobs")


def vqueues() -> NoReturn:
    """Run ``vqueues``."""
    _tool("vqueues")


def vcancel() -> NoReturn:
    """Run ``vcancel``."""
    _tool("vcancel")


def vsuspend() -> NoReturn:
    """Run ``vsuspend``."""
    _tool("vsuspend")


def vresume() -> NoReturn:
    """Run ``vresume``."""
    _tool("vresume")


def _tool(name: str) -> NoReturn:
    from strato.cli.volcano import programs

    programs.main(getattr(programs, name)(), sys.argv[1:])


def vc_scheduler() -> NoReturn:
    """Run the scheduler with Volcano's flags."""
    _component("scheduler")


def vc_agent_scheduler() -> NoReturn:
    """Run the scheduler for single pods, with the flags of Volcano's agent scheduler."""
    named = any(word.startswith("--scheduler-name") for word in sys.argv[1:])
    _component("scheduler", *(() if named else ("--scheduler-name=agent-scheduler",)))


def vc_controller_manager() -> NoReturn:
    """Run the controllers with Volcano's flags."""
    _component("controllers")


def vc_webhook_manager() -> NoReturn:
    """Run the admission webhook with Volcano's flags."""
    _component("webhook")


def _component(part: str, *defaults: str) -> NoReturn:
    from strato.cli.main import main

    main(["run", part, *defaults, *sys.argv[1:]])
