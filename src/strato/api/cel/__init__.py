"""A small CEL: the part of the Common Expression Language that rules of CRDs and selectors of devices use.

Supported: literals, ``self``-style names, field and index access, ``has()``, arithmetic, comparison, ``in``, logic with
CEL's error-tolerant ``||`` and ``&&``, the conditional operator, lists and maps, the macros ``all``, ``exists``,
``exists_one``, ``filter`` and ``map``, optional values with ``?``, values of types that the caller names
(`CelMessage`), and the functions of `functions`; quantities and semantic versions, which selectors of devices compare;
addresses, networks, URLs, instants and durations (`libraries`). Not supported: unsigned numbers, bytes, types as
values, ``format``. The compiler refuses an expression that needs more (`UnsupportedExpression`), so that none is
evaluated partly. Types are checked during the evaluation: an expression that Kubernetes' type checker refuses at once
fails here when it is evaluated (`EvaluationError`). The cost of an evaluation is limited while it runs (`cost`), and
estimated beforehand if the sizes of values are declared (`estimate`).

The parser makes a tree from the text (`parser`, `syntax`), and the compiler a closure from each node (`compiler`).

This is our own code instead of a library, because the existing one (cel-python) takes a hundred times as long for a
rule (2.5 ms), each write of a job evaluates dozens of rules, and the library needs two compiled packages.
"""

from strato.api.cel.authorization import AuthorizationDecision, AuthorizerVariable, Question
from strato.api.cel.compiler import compile_expression
from strato.api.cel.cost import OBJECT_LIMIT, CostExceeded, Meter, budget, charge, pause
from strato.api.cel.estimate import UNBOUNDED, Declared, estimated_cost
from strato.api.cel.libraries import duration, timestamp
from strato.api.cel.parser import parse, selected_paths
from strato.api.cel.values import (
    CelMessage,
    Env,
    EvaluationError,
    MalformedExpression,
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
    "AuthorizationDecision",
    "AuthorizerVariable",
    "CelMessage",
    "CostExceeded",
    "Declared",
    "Env",
    "EvaluationError",
    "MalformedExpression",
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
