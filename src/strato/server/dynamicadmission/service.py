"""`DynamicAdmission`: the webhooks and policies, as the writing verbs call them."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from strato.admission import AdmissionRequest
from strato.api import catalog
from strato.api.kinds import Kind
from strato.server.dynamicadmission.conditions import bounded
from strato.server.dynamicadmission.matching import Json
from strato.server.dynamicadmission.mutations import Mutated, Mutations, denial
from strato.server.dynamicadmission.policies import decide
from strato.server.dynamicadmission.reinvocation import Reinvocation
from strato.server.dynamicadmission.sources import Concerned, Sources, World
from strato.server.dynamicadmission.webhooks import Webhooks
from strato.server.flowcontrol.dispatch import Steps
from strato.server.webhookclient import WebhookClient


class DynamicAdmission:
    """Admission by the webhooks and policies that users configure."""

    def __init__(self, world: World, client: WebhookClient, rng: random.Random) -> None:
        self._world = world
        self._sources = Sources(world)
        self._webhooks = Webhooks(world, client, rng)

    def concerns(self, kind: Kind, operation: str, subresource: str = "") -> bool:
        """Whether any webhook or policy may apply to an operation; such a write cannot be done without waiting."""
        return self._sources.concerned(kind, operation, subresource) is not None

    def admit(self, request: AdmissionRequest, options: Json | None) -> Steps[None]:
        """Run mutating and validating admission for a request that stores no object: a deletion, a connection.

        Raises an `ApiError` if a webhook or policy refuses it.
        """
        yield from self.mutate(request, options, _as_it_is)
        yield from self.validate(request, options)

    def mutate(self, request: AdmissionRequest, options: Json | None, check: Callable[[Json], Json]) -> Steps[bool]:
        """Let policies, then webhooks mutate a write; return whether any changed it.

        If something changed, those that ask for it are called a second time, as in Kubernetes.

        Raises:
            ApiError: One refuses it, or its result is not a valid object of the kind.
        """
        concerned = self._concerned(request)
        if concerned is None or not concerned.mutates:
            return False
        namespace = self._namespace(request)
        of_policies, of_webhooks = Reinvocation(), Reinvocation()
        has_changed = False
        for is_second in (False, True):
            if is_second:
                of_policies.begin_second(request.object)
            changed = yield from self._evaluate(request, concerned, namespace, check, of_policies)
            if is_second:
                of_webhooks.begin_second(request.object)
            changed |= yield from self._webhooks.mutate(request, concerned, namespace, options, check, of_webhooks)
            has_changed |= changed
            if not changed:
                break
        return has_changed

    def _evaluate(
        self,
        request: AdmissionRequest,
        concerned: Concerned,
        namespace: Json | None,
        check: Callable[[Json], Json],
        reinvocation: Reinvocation,
    ) -> Steps[bool]:
        """Let policies mutate a write; return whether any mutation was evaluated, which counts as a change."""
        if not concerned.mutations:
            return False
        mutations = Mutations(self._world, check)
        mutated: Mutated = yield from bounded(
            lambda: mutations.evaluate(concerned.mutations, request, concerned.others, namespace, reinvocation)
        )
        if mutated.denials:
            raise denial(request, mutated.denials)
        request.object = mutated.object
        for one in mutated.asked:
            reinvocation.asked(one)
        if mutated.is_evaluated:
            reinvocation.changed()
        reinvocation.end(request.object)
        return mutated.is_evaluated

    def validate(self, request: AdmissionRequest, options: Json | None) -> Steps[None]:
        """Run validating policies and webhooks for a write. Raises an `ApiError` if one refuses it."""
        concerned = self._concerned(request)
        if concerned is None:
            return
        namespace = self._namespace(request)
        yield from self._judge(request, concerned, namespace)
        if concerned.validating:
            yield from self._webhooks.validate(request, concerned, namespace, options)

    def _judge(self, request: AdmissionRequest, concerned: Concerned, namespace: Json | None) -> Steps[None]:
        denial = None
        for policy in concerned.policies:
            decided = yield from bounded(partial(decide, policy, request, self._world, concerned.others, namespace))
            request.warnings.extend(decided.warnings)
            for key, value in decided.annotations.items():
                request.audit_annotations.setdefault(key, value)
            denial = denial or decided.denial
        if denial is not None:
            raise denial

    def _concerned(self, request: AdmissionRequest) -> Concerned | None:
        return self._sources.concerned(request.kind, str(request.operation), request.subresource)

    def _namespace(self, request: AdmissionRequest) -> Json | None:
        """Return the stored Namespace of an object; for a Namespace, itself."""
        name = request.name if request.kind is catalog.NAMESPACE else request.namespace
        return self._world.get(catalog.NAMESPACE, "", name) if name else None


def _as_it_is(obj: Json) -> Json:
    return obj
