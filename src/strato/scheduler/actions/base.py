"""`Action`: base of all actions, and the arguments several of them share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from strato.scheduler.framework.arguments import arg

if TYPE_CHECKING:
    from strato.scheduler.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonArgs:
    """Arguments several actions share."""

    predicate_error_cache: bool = arg("predicateErrorCacheEnable", True)
    """Whether, once a task fits nowhere, tasks of the same role and job are not tried. Default true."""


class Action:
    """One step of a cycle; works on the session only."""

    name: ClassVar[str] = ""
    args_type: ClassVar[type[Any] | None] = CommonArgs

    def __init__(self, args: Any = None) -> None:
        self.args = args if args is not None or self.args_type is None else self.args_type()

    def execute(self, ssn: Session) -> None:
        """Run the action on a session."""
        raise NotImplementedError
