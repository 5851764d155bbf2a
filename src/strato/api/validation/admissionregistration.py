"""Rules of webhook configurations, admission policies and their bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from strato.api import cel, names
from strato.api.meta import Json
from strato.api.status import duplicate, forbidden_field, invalid_value, not_supported, required
from strato.api.validation.selectors import label_selector_problems
from strato.api.validation.webhookclients import client_problems
from strato.errors import Cause

_REVIEWS = ("v1", "v1beta1")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
MUTATION_TYPES = ("Object", "JSONPatch")
"""Types of which expressions of mutations make values."""
_PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
"""Types of patches, and where they are written."""
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_CONDITIONS_MAX, _ANNOTATIONS_MAX = 64, 20


def validate_webhooks(obj: Json) -> list[Cause]:
    """Check a webhook configuration, of either kind."""
    return list(_webhooks_problems(obj))


def validate_policy(obj: Json) -> list[Cause]:
    """Check a ValidatingAdmissionPolicy."""
    return list(_policy_problems(obj.get("spec") or {}))


def validate_mutating_policy(obj: Json) -> list[Cause]:
    """Check a MutatingAdmissionPolicy."""
    return list(_mutating_policy_problems(obj.get("spec") or {}))


def validate_mutating_binding(obj: Json) -> list[Cause]:
    """Check a MutatingAdmissionPolicyBinding."""
    spec = obj.get("spec") or {}
    return [*_bound_problems(spec), *_mutating_rule_problems(spec.get("matchResources") or {}, "spec.matchResources")]


def validate_policy_binding(obj: Json) -> list[Cause]:
    """Check a ValidatingAdmissionPolicyBinding."""
    return list(_binding_problems(obj.get("spec") or {}))


def _webhooks_problems(obj: Json) -> Iterator[Cause]:
    known: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        at, name = f"webhooks[{index}]", hook.get("name") or ""
        yield from _full_name_problems(name, f"{at}.name")
        for number, rule in enumerate(hook.get("rules") or ()):
            yield from _rule_problems(rule, f"{at}.rules[{number}]")
        yield from _choice(hook, "failurePolicy", ("Fail", "Ignore"), at)
        yield from _choice(hook, "matchPolicy", ("Equivalent", "Exact"), at)
        yield from _choice(hook, "reinvocationPolicy", ("IfNeeded", "Never"), at)
        if hook.get("sideEffects") is None:
            yield required(f"{at}.sideEffects", "must specify one of None, NoneOnDryRun")
        yield from _choice(hook, "sideEffects", ("None", "NoneOnDryRun"), at)
        seconds = hook.get("timeoutSeconds")
        if seconds is not None and not 1 <= seconds <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            yield invalid_value(f"{at}.timeoutSeconds", seconds, text)
        yield from _selector_problems(hook, at)
        yield from client_problems(hook.get("clientConfig") or {}, f"{at}.clientConfig")
        yield from _conditions_problems(hook.get("matchConditions") or (), f"{at}.matchConditions")
        yield from _review_problems(hook.get("admissionReviewVersions") or (), f"{at}.admissionReviewVersions")
        if name and name in known:
            yield duplicate(f"{at}.name", name)
        known.add(name)


def _full_name_problems(name: str, at: str) -> Iterator[Cause]:
    if not name:
        yield required(at)
        return
    for problem in names.check_subdomain(name):
        yield invalid_value(at, name, problem)
    if len(name.split(".")) < 3:
        yield invalid_value(at, name, "should be a domain with at least three segments separated by dots")


def _review_problems(versions: Sequence[str], at: str) -> Iterator[Cause]:
    if not versions:
        yield required(at, f"must specify one of {', '.join(_REVIEWS)}")
    elif not set(versions) & set(_REVIEWS):
        yield invalid_value(at, list(versions), f"must include at least one of {', '.join(_REVIEWS)}")


def _rule_problems(rule: Json, at: str) -> Iterator[Cause]:
    operations = rule.get("operations") or ()
    if not operations:
        yield required(f"{at}.operations")
    elif len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        yield invalid_value(f"{at}.operations", operations, text)
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield not_supported(f"{at}.operations[{index}]", operation, _OPERATIONS)
    for member, called in (("apiGroups", "API groups"), ("apiVersions", "API versions"), ("resources", "")):
        items = rule.get(member) or ()
        if not items:
            yield required(f"{at}.{member}")
        elif called and len(items) > 1 and "*" in items:
            text = f"if '*' is present, must not specify other {called}"
            yield invalid_value(f"{at}.{member}", items, text)
        for index, item in enumerate(items):
            if not item and member != "apiGroups":
                yield required(f"{at}.{member}[{index}]")
    yield from _resources_problems(rule.get("resources") or (), f"{at}.resources")
    yield from _choice(rule, "scope", ("*", "Cluster", "Namespaced"), at)


def _resources_problems(resources: Sequence[str], at: str) -> Iterator[Cause]:
    if len(resources) > 1 and "*/*" in resources:
        yield invalid_value(at, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and any("/" not in one and one != "*" for one in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid_value(at, resources, text)


def _selector_problems(written: Json, at: str) -> Iterator[Cause]:
    for member in ("namespaceSelector", "objectSelector"):
        yield from label_selector_problems(written.get(member) or {}, f"{at}.{member}")


def _conditions_problems(conditions: Sequence[Json], at: str) -> Iterator[Cause]:
    known: set[str] = set()
    if len(conditions) > _CONDITIONS_MAX:
        yield invalid_value(at, len(conditions), f"must have at most {_CONDITIONS_MAX} items")
    for index, condition in enumerate(conditions):
        name, place = condition.get("name"), f"{at}[{index}]"
        yield from _expression_problems(condition.get("expression"), f"{place}.expression", "")
        if not name:
            yield required(f"{place}.name")
            continue
        for problem in names.check_qualified_name(name):
            yield invalid_value(f"{place}.name", name, problem)
        if name in known:
            yield duplicate(f"{place}.name", name)
        known.add(name)


def _expression_problems(text: str | None, at: str, missing: str, types: Sequence[str] = ()) -> Iterator[Cause]:
    """Yield why an expression is invalid, or uses an unsupported part of CEL."""
    if not (text or "").strip():
        yield required(at, missing)
        return
    try:
        cel.compile_expression(str(text), types)
    except cel.UnsupportedExpression as error:
        yield invalid_value(at, text, f"compilation failed: {error}")


def _choice(written: Json, member: str, allowed: Sequence[str], at: str) -> Iterator[Cause]:
    value = written.get(member)
    if value is not None and value not in allowed:
        yield not_supported(f"{at}.{member}", value, allowed)


def _match_problems(written: Json, at: str) -> Iterator[Cause]:
    yield from _choice(written, "matchPolicy", ("Equivalent", "Exact"), at)
    yield from _selector_problems(written, at)
    for member in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(written.get(member) or ()):
            yield from _rule_problems(rule, f"{at}.{member}[{index}]")


def _scope_problems(spec: Json) -> Iterator[Cause]:
    """Yield the problems that policies of both kinds can have; not those of validations and mutations."""
    yield from _choice(spec, "failurePolicy", ("Fail", "Ignore"), "spec")
    kind: Json | None = spec.get("paramKind")
    for member in ("apiVersion", "kind"):
        if kind is not None and not kind.get(member):
            yield required(f"spec.paramKind.{member}")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield required("spec.matchConstraints")
    else:
        yield from _match_problems(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
    yield from _conditions_problems(spec.get("matchConditions") or (), "spec.matchConditions")
    yield from _each(spec, "variables", "name", _variable_problems)


def _mutating_policy_problems(spec: Json) -> Iterator[Cause]:
    yield from _scope_problems(spec)
    yield from _mutating_rule_problems(spec.get("matchConstraints") or {}, "spec.matchConstraints")
    if not spec.get("mutations"):
        yield required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(spec.get("mutations") or ()):
        yield from _mutation_problems(mutation, f"spec.mutations[{index}]")
    if not spec.get("reinvocationPolicy"):
        yield required("spec.reinvocationPolicy")
    yield from _choice(spec, "reinvocationPolicy", ("IfNeeded", "Never"), "spec")


def _mutating_rule_problems(resources: Json, at: str) -> Iterator[Cause]:
    for rule in resources.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATING_OPERATIONS:
                yield not_supported(f"{at}.resourceRules.operations", operation, _MUTATING_OPERATIONS)


def _mutation_problems(mutation: Json, at: str) -> Iterator[Cause]:
    chosen = mutation.get("patchType")
    if not chosen:
        yield required(f"{at}.patchType")
        return
    yield from _choice(mutation, "patchType", tuple(_PATCHES), at)
    for kind, member in _PATCHES.items():
        written: Json | None = mutation.get(member)
        if kind != chosen:
            if chosen in _PATCHES and written is not None:
                text = f"must not be specified when patchType is {chosen}"
                yield invalid_value(f"{at}.{member}", f"{{{member}}}", text)
        elif written is None:
            yield required(f"{at}.{member}", f"must be specified when patchType is {chosen}")
        else:
            yield from _expression_problems(written.get("expression"), f"{at}.{member}.expression", "", MUTATION_TYPES)


def _policy_problems(spec: Json) -> Iterator[Cause]:
    yield from _scope_problems(spec)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", text)
        yield required("spec.auditAnnotations", text)
    for index, validation in enumerate(validations):
        yield from _validation_problems(validation, f"spec.validations[{index}]")
    if len(annotations) > _ANNOTATIONS_MAX:
        text = f"must not have more than {_ANNOTATIONS_MAX} auditAnnotations"
        yield invalid_value("spec.auditAnnotations", len(annotations), text)
    yield from _each(spec, "auditAnnotations", "key", _annotation_problems)


def _each(spec: Json, member: str, key: str, problems: Callable[[Json, str], Iterator[Cause]]) -> Iterator[Cause]:
    """Yield the problems of each item of a list, and duplicates of keys."""
    known: set[str] = set()
    for index, item in enumerate(spec.get(member) or ()):
        at, name = f"spec.{member}[{index}]", item.get(key) or ""
        yield from problems(item, at)
        if name in known:
            yield duplicate(f"{at}.{key}", name)
        known.add(name)


def _variable_problems(variable: Json, at: str) -> Iterator[Cause]:
    name = variable.get("name") or ""
    if not name:
        yield required(f"{at}.name", "name is not specified")
    elif not (name.isidentifier() and name.isascii()):
        yield invalid_value(f"{at}.name", name, "name is not a valid CEL identifier")
    yield from _expression_problems(variable.get("expression"), f"{at}.expression", "expression is not specified")


def _validation_problems(validation: Json, at: str) -> Iterator[Cause]:
    yield from _expression_problems(validation.get("expression"), f"{at}.expression", "expression is not specified")
    if validation.get("messageExpression"):
        yield from _expression_problems(validation["messageExpression"], f"{at}.messageExpression", "must be non-empty")
    message = validation.get("message")
    if message and not message.strip():
        yield invalid_value(f"{at}.message", message, "must be non-empty if specified")
    elif message and ("\n" in message.strip() or "\r" in message.strip()):
        yield invalid_value(f"{at}.message", message, "must not contain line breaks")
    yield from _choice(validation, "reason", _REASONS, at)


def _annotation_problems(annotation: Json, at: str) -> Iterator[Cause]:
    for problem in names.check_qualified_name(f"x/{annotation.get('key') or ''}"):
        yield invalid_value(f"{at}.key", annotation.get("key"), problem)
    text = "valueExpression is not specified"
    yield from _expression_problems(annotation.get("valueExpression"), f"{at}.valueExpression", text)


def _bound_problems(spec: Json) -> Iterator[Cause]:
    """Yield the problems that bindings of both kinds can have; not those of their actions."""
    if not spec.get("policyName"):
        yield required("spec.policyName")
    ref = spec.get("paramRef")
    if ref is not None:
        yield from _param_problems(ref)
    yield from _match_problems(spec.get("matchResources") or {}, "spec.matchResources")


def _binding_problems(spec: Json) -> Iterator[Cause]:
    yield from _bound_problems(spec)
    actions = spec.get("validationActions") or []
    at = "spec.validationActions"
    if not actions:
        yield required(at, "at least one validation action is required")
    for index, action in enumerate(actions):
        if action not in ("Audit", "Deny", "Warn"):
            yield not_supported(f"{at}[{index}]", action, ("Audit", "Deny", "Warn"))
        if action in actions[:index]:
            yield duplicate(f"{at}[{index}]", action)
    if "Deny" in actions and "Warn" in actions:
        text = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
        yield invalid_value(at, actions, f"{text}response and headers serves no purpose)")


def _param_problems(ref: Json) -> Iterator[Cause]:
    at = "spec.paramRef"
    if ref.get("name") and ref.get("selector") is not None:
        yield forbidden_field(f"{at}.name", "name and selector are mutually exclusive")
    if not ref.get("name") and ref.get("selector") is None:
        yield required(at, "one of name or selector must be specified")
    if ref.get("selector") is not None:
        yield from label_selector_problems(ref["selector"], f"{at}.selector")
    if not ref.get("parameterNotFoundAction"):
        yield required(f"{at}.parameterNotFoundAction")
    yield from _choice(ref, "parameterNotFoundAction", ("Allow", "Deny"), at)
