"""A small CEL: the part of the Common Expression Language that rules of CRDs and selectors of devices use.

Supported: literals, ``self``-style names, field and index access, ``has()``, arithmetic, comparison, ``in``, logic
with CEL's error-tolerant ``||`` and ``&&``, the conditional operator, lists and maps, the macros ``all``, ``exists``,
``exists_one``, ``filter`` and ``map``, optional values with ``?``, values of types that the caller names (`Message`),
and the functions of `functions`; quantities and semantic versions, which selectors of devices compare; addresses,
networks, URLs, instants and durations (`libraries`). Not supported: unsigned numbers, bytes, types as values,
``format``. An expression that needs more is refused when compiled (`UnsupportedExpression`), never evaluated halfway.
Types are checked when values meet, not before: what Kubernetes' checker refuses at once fails here when it is evaluated
(`EvaluationError`). What an evaluation may cost is limited while it runs (`cost`), and estimated before where the sizes
of values are declared (`estimate`).

The text becomes a tree (`parser`, `syntax`), and that a closure a node (`compiler`).

Own code, where a library would do: the one that exists (cel-python) takes a hundred times longer
for a rule (2.5 ms), of which a job meets dozens each time it is written, and it needs two compiled packages.
"""

from strato.api.cel.authorization import Authorizer, Decision, Question
from strato.api.cel.compiler import compile_expression
from strato.api.cel.cost import OBJECT_LIMIT, CostExceeded, Meter, budget, charge, pause
from strato.api.cel.estimate import UNBOUNDED, Declared, estimated_cost
from strato.api.cel.libraries import duration, timestamp
from strato.api.cel.parser import parse, selected_paths
from strato.api.cel.values import (
    Env,
    EvaluationError,
    MalformedExpression,
    Message,
    Optional,
    Program,
    UnsupportedExpression,
    Version,
    quantity,
    semver,
    type_name,
)

__all__ = [
    "OBJECT_LIMIT",
    "UNBOUNDED",
    "Authorizer",
    "CostExceeded",
    "Decision",
    "Declared",
    "Env",
    "EvaluationError",
    "MalformedExpression",
    "Message",
    "Meter",
    "Optional",
    "Program",
    "Question",
    "UnsupportedExpression",
    "Version",
    "budget",
    "charge",
    "compile_expression",
    "duration",
    "estimated_cost",
    "parse",
    "pause",
    "quantity",
    "selected_paths",
    "semver",
    "timestamp",
    "type_name",
]
