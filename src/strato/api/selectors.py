"""Label and field selectors, from text and from objects, with Kubernetes' parse errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from strato.api import names
from strato.api.shapes import LabelSelector, LabelSelectorRequirement
from strato.errors import UsageError
from strato.lru import memoised

IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GREATER, LESS = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"

_EMPTY_LABELS: Mapping[str, str] = {}


class InvalidSelector(UsageError, ValueError):
    """A text or object is no valid selector; the message is Kubernetes'."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on one key."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.operator in (GREATER, LESS):
            return f"{self.key}{'>' if self.operator == GREATER else '<'}{self.values[0]}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator == IN else '!='}{self.values[0]}"
        word = "in" if self.operator == IN else "notin"
        return f"{self.key} {word} ({','.join(sorted(self.values))})"


def _integer(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return None


class _OnKey:
    """All requirements on the value of one key."""

    __slots__ = ("_above", "_allowed", "_below", "_is_absent", "_refused")

    def __init__(self, requirements: Sequence[Requirement]) -> None:
        allowed: set[str] | None = None
        refused: set[str] = set()
        above: list[int] = []
        below: list[int] = []
        for one in requirements:
            if one.operator == IN:
                allowed = set(one.values) if allowed is None else allowed.intersection(one.values)
            elif one.operator == NOT_IN:
                refused.update(one.values)
            elif one.operator in (GREATER, LESS):
                bound = _integer(one.values[0] if one.values else None)
                if bound is None:
                    allowed = set()  # no value is greater or less than a text that is no number
                else:
                    (above if one.operator == GREATER else below).append(bound)
        self._allowed, self._refused = allowed, refused
        self._above, self._below = max(above, default=None), min(below, default=None)
        self._is_absent = any(one.operator == DOES_NOT_EXIST for one in requirements)

    def matches(self, value: str) -> bool:
        """Whether a present value satisfies all requirements."""
        if self._is_absent or value in self._refused or (self._allowed is not None and value not in self._allowed):
            return False
        if self._above is None and self._below is None:
            return True
        number = _integer(value)
        return (
            number is not None
            and (self._above is None or number > self._above)
            and (self._below is None or number < self._below)
        )


_FEW_EQUALITIES = 8


class Selector:
    """A conjunction of requirements. Without any it matches everything, unless it is `NOTHING`."""

    __slots__ = ("_by_key", "_equal", "_needed", "_nothing", "requirements")

    def __init__(self, requirements: Sequence[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(requirements)
        self._nothing = nothing
        # Most selectors are a few equalities, which are checked without calls.
        self._equal: tuple[tuple[str, str], ...] | None = (
            tuple((r.key, r.values[0]) for r in self.requirements)
            if len(self.requirements) <= _FEW_EQUALITIES
            and all(r.operator == IN and len(r.values) == 1 for r in self.requirements)
            else None
        )
        by_key: dict[str, list[Requirement]] = {}
        for one in self.requirements if self._equal is None else ():
            by_key.setdefault(one.key, []).append(one)
        self._by_key = {key: _OnKey(asked) for key, asked in by_key.items()}
        absent = (NOT_IN, DOES_NOT_EXIST)  # these hold where the key is absent
        self._needed = frozenset(
            key for key, asked in by_key.items() if any(one.operator not in absent for one in asked)
        )

    @property
    def is_empty(self) -> bool:
        """Whether the selector has no requirements, so that it matches everything."""
        return not self.requirements and not self._nothing

    @property
    def one_of(self) -> Collection[tuple[str, str]] | None:
        """Labels such that whatever matches has exactly one of them; None if no requirement fixes a value."""
        if self._nothing:
            return ()
        asked = [r for r in self.requirements if r.operator == IN]
        if not asked:
            return None
        fewest = min(asked, key=lambda r: len(r.values))
        return {(fewest.key, value) for value in fewest.values}

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether labels (None means none) satisfy every requirement."""
        if self._nothing:
            return False
        present = labels if labels is not None else _EMPTY_LABELS
        if self._equal is not None:
            for key, wanted in self._equal:  # noqa: SIM110 - a generator costs more than the loop
                if present.get(key) != wanted:
                    return False
            return True
        if len(self._needed) > len(present):
            return False
        for key in self._needed:
            if present.get(key) is None:
                return False
        # iterate over the smaller of the two, because a selector may have thousands of keys
        for key in present if len(present) < len(self._by_key) else self._by_key:
            asked, value = self._by_key.get(key), present.get(key)
            if asked is not None and value is not None and not asked.matches(value):
                return False
        return True

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Selector) and self.requirements == other.requirements and self._nothing == other._nothing
        )

    def __hash__(self) -> int:
        return hash((self.requirements, self._nothing))

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in sorted(self.requirements, key=lambda r: r.key))

    def __repr__(self) -> str:
        return "Selector(nothing)" if self._nothing else f"Selector({str(self)!r})"


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def from_labels(labels: Mapping[str, str]) -> Selector:
    """Return the selector of all labels being equal (services, replication controllers)."""
    return Selector([Requirement(key, IN, (value,)) for key, value in sorted(labels.items())])


def from_label_selector(selector: LabelSelector | None) -> Selector:
    """Return what a `LabelSelector` selects: nothing when absent, everything when empty.

    Raises:
        InvalidSelector: An operator is unknown.
    """
    if selector is None:
        return NOTHING
    requirements = [Requirement(key, IN, (value,)) for key, value in sorted(selector.match_labels.items())]
    requirements += [_from_expression(expression) for expression in selector.match_expressions]
    return Selector(requirements) if requirements else EVERYTHING


def _from_expression(expression: LabelSelectorRequirement) -> Requirement:
    if expression.operator not in (IN, NOT_IN, EXISTS, DOES_NOT_EXIST):
        raise InvalidSelector(f'"{expression.operator}" is not a valid label selector operator')
    return Requirement(expression.key, expression.operator, expression.values)


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────

_TOKEN = re.compile(r"\s*(?:(==|=|!=|!|\(|\)|,|>|<)|([^\s=!(),><]+))")
_OPERATORS = {"in": IN, "notin": NOT_IN, "=": IN, "==": IN, "!=": NOT_IN, ">": GREATER, "<": LESS}
_END = ""


class _Parser:
    """Kubernetes' grammar: requirements separated by commas."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, bool]] = []
        position = 0
        body = text.rstrip()
        while position < len(body):
            match = _TOKEN.match(body, position)
            assert match is not None  # every character is a symbol, a blank or part of a word
            symbol, word = match.groups()
            self._tokens.append((symbol, False) if symbol is not None else (word, True))
            position = match.end()
        self._position = 0

    def _look(self) -> tuple[str, bool]:
        return self._tokens[self._position] if self._position < len(self._tokens) else (_END, False)

    def _take(self) -> tuple[str, bool]:
        token = self._look()
        self._position += 1
        return token

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            text, is_word = self._look()
            if text == _END:
                return requirements
            if not is_word and text != "!":
                raise InvalidSelector(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except InvalidSelector as err:
                raise InvalidSelector(f"unable to parse requirement: {err}") from None
            text, _ = self._take()
            if text == _END:
                return requirements
            if text != ",":
                raise InvalidSelector(f"found '{text}', expected: ',' or 'end of string'")
            text, is_word = self._look()
            if not is_word and text != "!":
                raise InvalidSelector(f"found '{text}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        key, is_word = self._take()
        negated = key == "!" and not is_word
        if negated:
            key, is_word = self._take()
        if not is_word:
            raise InvalidSelector(f"found '{key}', expected: identifier")
        if complaints := names.check_qualified_name(key):
            raise InvalidSelector(f'<nil>: Invalid value: "{key}": {"; ".join(complaints)}')
        following, _ = self._look()
        if negated:
            return Requirement(key, DOES_NOT_EXIST)
        if following in (_END, ","):
            return Requirement(key, EXISTS)
        word, _ = self._take()
        operator = _OPERATORS.get(word)
        if operator is None:
            raise InvalidSelector(f"found '{word}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._value_set() if word in ("in", "notin") else {self._exact_value()}
        return _checked(key, operator, tuple(sorted(values)))

    def _exact_value(self) -> str:
        text, is_word = self._look()
        if text in (_END, ",") and not is_word:
            return ""
        self._take()
        if not is_word:
            raise InvalidSelector(f"found '{text}', expected: identifier")
        return text

    def _value_set(self) -> set[str]:
        text, _ = self._take()
        if text != "(":
            raise InvalidSelector(f"found '{text}' expected: '('")
        text, is_word = self._look()
        if text == ")":
            self._take()
            return set()
        if not is_word and text != ",":
            raise InvalidSelector(f"found '{text}', expected: ',', ')' or identifier")
        values: set[str] = set()
        expects_value = True
        while True:
            text, is_word = self._take()
            if is_word:
                values.add(text)
                following, _ = self._look()
                if following not in (",", ")"):
                    raise InvalidSelector(f"found '{following}', expected: ',' or ')'")
                expects_value = False
            elif text == ",":
                if expects_value:
                    values.add("")
                expects_value = True
            elif text == ")":
                if expects_value:
                    values.add("")
                return values
            else:
                raise InvalidSelector(f"found '{text}', expected: ',', or identifier")


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    if operator in (IN, NOT_IN) and not values:
        raise InvalidSelector("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    if operator in (GREATER, LESS) and _integer(values[0]) is None:
        raise InvalidSelector(
            f"values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value must be an integer"
        )
    for index, value in enumerate(values):
        if complaints := names.check_label_value(value):
            raise InvalidSelector(f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(complaints)}')
    return Requirement(key, operator, values)


@memoised(4 << 20, longest=4096)
def parse_selector(text: str) -> Selector:
    """Read ``a=b,c in (d,e),!f``; empty text selects everything. Cached.

    Raises:
        InvalidSelector: With Kubernetes' complaint.
    """
    return Selector(_Parser(text).parse()) if text.strip() else EVERYTHING


# ── fields ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One field that must equal, or must not equal, a value."""

    field: str
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of field requirements."""

    requirements: tuple[FieldRequirement, ...] = ()
    _by_field: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = field(init=False, repr=False, compare=False)
    """Per field: its name, the values that it must equal, and those that it must not equal."""

    def __post_init__(self) -> None:
        grouped: dict[str, tuple[set[str], set[str]]] = {}
        for one in self.requirements:
            grouped.setdefault(one.field, (set(), set()))[one.negated].add(one.value)
        frozen = tuple((name, frozenset(equal), frozenset(refused)) for name, (equal, refused) in grouped.items())
        object.__setattr__(self, "_by_field", frozen)

    def matches(self, get: Callable[[str], str]) -> bool:
        """Whether an object satisfies it; ``get`` returns a field's text, "" when it has none."""
        for name, equal, refused in self._by_field:
            value = get(name)
            if value in refused or (equal and (len(equal) > 1 or value not in equal)):
                return False
        return True

    def exact(self, field: str) -> str | None:
        """Return the value that a field must equal, None if there is no such value; used to choose indexes."""
        for requirement in self.requirements:
            if requirement.field == field and not requirement.negated:
                return requirement.value
        return None

    def __str__(self) -> str:
        return ",".join(f"{r.field}{'!=' if r.negated else '='}{_escape(r.value)}" for r in self.requirements)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _split_terms(text: str) -> list[str]:
    """Split at commas that are not escaped by a backslash."""
    terms, begin = [], 0
    for comma in _COMMA_OR_ESCAPED.finditer(text):
        if comma[0] == ",":
            terms.append(text[begin : comma.start()])
            begin = comma.end()
    return [*terms, text[begin:]]


_COMMA_OR_ESCAPED = re.compile(r"\\.|,", re.DOTALL)
_OPERATOR_OR_ESCAPED = re.compile(r"\\.|!=|==?", re.DOTALL)


@memoised(4 << 20, longest=4096)
def parse_field_selector(text: str) -> FieldSelector:
    r"""Read ``spec.nodeName=x,status.phase!=Failed``; ``\``, ``,`` and ``=`` in values are escaped by ``\``. Cached.

    Raises:
        InvalidSelector: With Kubernetes' complaint.
    """
    requirements: list[FieldRequirement] = []
    for term in _split_terms(text):
        if term == "":
            continue
        found = next((one for one in _OPERATOR_OR_ESCAPED.finditer(term) if one[0][0] != "\\"), None)
        if found is None:
            raise InvalidSelector(f"invalid selector: '{text}'; can't understand '{term}'")
        name, value = term[: found.start()], _unescape(term[found.end() :])
        if name or value:  # "=" and "!=" select everything
            requirements.append(FieldRequirement(name, value, negated=found[0] == "!="))
    return FieldSelector(tuple(requirements))


def _unescape(value: str) -> str:
    parts, begin = [], 0
    for found in _SPECIAL.finditer(value):
        if found[0][0] != "\\":
            raise InvalidSelector(f"invalid field selector: unescaped character in value: {found[0]}")
        if found[0][1:] not in ("\\", ",", "="):
            raise InvalidSelector(f"invalid field selector: invalid escape sequence: {found[0]}")
        parts += [value[begin : found.start()], found[0][1:]]
        begin = found.end()
    return "".join([*parts, value[begin:]])


_SPECIAL = re.compile(r"\\.?|[,=]", re.DOTALL)
