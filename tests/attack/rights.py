"""Attack rights: random users write random roles and bindings, and shall gain nothing that the writer does not hold.

A reference implementation, written from the documentation of RBAC and with sets over a small universe of requests,
says after every write what each user may do. It stands against the server in three ways: what the server decides, what
a writer may grant, and what anybody gained. ``python -m tests.attack.rights --count 100000 --seed 1``
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import or_
from typing import Any

from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.errors import ApiError
from strato.server.api import ApiServer
from strato.server.auth.impersonation import impersonated
from strato.server.embedded import open_server
from strato.server.path import Attributes

Json = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"
BASE = f"/apis/{GROUP}/v1"
ADMIN = User("admin", ("system:masters",))
ACCOUNT = "system:serviceaccount:a:robot"
USERS = (
    User("ann", ("team",)),
    User("bob", ("team", "ops")),
    User("eve", ()),
    User(ACCOUNT, ("system:serviceaccounts", "system:serviceaccounts:a")),
)
SPACES = ("a", "b")
OTHER = "zz"
"""Stands for every verb, group, resource, name and path that no rule writes out: only wildcards reach it."""

Question = tuple[str, str, str, str, str]
"""Verb, group, resource with subresource, namespace, name; or verb, path and three empty texts."""

_VERBS = ("get", "create", "update", "patch", "delete", "escalate", "bind", "impersonate", OTHER)
_GROUPS = ("", "apps", GROUP, OTHER)
_WRITTEN: dict[str, tuple[str, ...]] = {
    "": ("pods", "pods/log", "secrets", "users", "serviceaccounts/token"),
    "apps": ("deployments", "deployments/scale"),
    GROUP: ("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
}
_RESOURCES = (*itertools.chain(*_WRITTEN.values()), OTHER, f"{OTHER}/log", f"{OTHER}/scale", f"{OTHER}/{OTHER}")
_NAMES = ("", "n0", "n1", OTHER)
_PATHS = ("/metrics", "/logs", "/logs/x", "/logsx", f"/{OTHER}")
UNIVERSE: tuple[Question, ...] = (
    *itertools.product(_VERBS, _GROUPS, _RESOURCES, ("", *SPACES), _NAMES),
    *((verb, path, "", "", "") for verb in ("get", OTHER) for path in _PATHS),
)
INDEX = {question: 1 << number for number, question in enumerate(UNIVERSE)}
"""A set of requests is a number, with a bit for each request."""
ALL = (1 << len(UNIVERSE)) - 1


def _bits(wanted: Callable[[Question], bool]) -> int:
    return sum(bit for question, bit in INDEX.items() if wanted(question))


# -- the reference ---------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """All roles and bindings, by (plural, namespace, name)."""

    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)

    def rules(self, kind: str, space: str, name: str, seen: frozenset[str] = frozenset()) -> list[Json]:
        """Return the rules of a role, with those it gathers by labels."""
        found = self.objects.get(("clusterroles", "", name) if kind == "ClusterRole" else ("roles", space, name))
        if found is None:
            return []
        rules = list(found.get("rules") or ())
        for selector in (found.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
            for (plural, _, other), role in self.objects.items():
                labels = role["metadata"].get("labels") or {}
                if plural == "clusterroles" and other not in seen and selector["matchLabels"].items() <= labels.items():
                    rules += self.rules("ClusterRole", "", other, seen | {name})
        return rules

    def held(self, user: User) -> int:
        """Return what of the universe a user may do."""
        result = 0
        for (plural, space, _), binding in self.objects.items():
            if plural.endswith("bindings") and any(_is_one(user, one, space) for one in binding["subjects"]):
                role = binding["roleRef"]
                result |= granted(self.rules(role["kind"], space, role["name"]), space)
        return result

    def paths_bound(self, user: User, space: str) -> int:
        """Return the paths that roles of the cluster name and a user is bound to in a namespace.

        They let nobody in there, as a path is in no namespace; but who has them may pass them on.
        """
        result = 0
        for (plural, place, _), binding in self.objects.items():
            if plural != "rolebindings" or place != space or binding["roleRef"]["kind"] != "ClusterRole":
                continue
            if any(_is_one(user, one, space) for one in binding["subjects"]):
                result |= granted(_paths_of(self.rules("ClusterRole", "", binding["roleRef"]["name"])), "")
        return result


def _paths_of(rules: list[Json]) -> list[Json]:
    return [rule for rule in rules if rule.get("nonResourceURLs")]


def _is_one(user: User, subject: Json, space: str) -> bool:
    if subject["kind"] == "User":
        return bool(subject["name"] == user.name)
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    return f"system:serviceaccount:{subject.get('namespace') or space}:{subject['name']}" == user.name


@lru_cache(maxsize=4096)
def _matching(member: str, value: str) -> int:
    """Return the requests that one value of a rule's member is about."""
    match member:
        case "verbs":
            return _bits(lambda asked: value in ("*", asked[0]))
        case "apiGroups":
            return _bits(lambda asked: value in ("*", asked[1]) and not asked[1].startswith("/"))
        case "resources":
            return _bits(
                lambda asked: (
                    value in ("*", asked[2])
                    or (value.startswith("*/") and "/" in asked[2] and asked[2].endswith(value[1:]))
                )
            )
        case "resourceNames":
            return _bits(lambda asked: asked[4] == value)
        case "space":
            return _bits(lambda asked: asked[3] == value and not asked[1].startswith("/"))
    return _bits(lambda asked: asked[1] == value or (value.endswith("*") and asked[1].startswith(value[:-1] or "/")))


def _any(rule: Json, member: str) -> int:
    return reduce(or_, (_matching(member, value) for value in rule.get(member) or ()), 0)


def granted(rules: list[Json], space: str) -> int:
    """Return what of the universe rules grant, bound in a namespace or (empty) in the whole cluster."""
    result = 0
    for rule in rules:
        verbs = _any(rule, "verbs")
        if rule.get("nonResourceURLs"):
            result |= verbs & _any(rule, "nonResourceURLs") if not space else 0
            continue
        names = _any(rule, "resourceNames") if rule.get("resourceNames") else ALL
        place = _matching("space", space) if space else ALL
        result |= verbs & _any(rule, "apiGroups") & _any(rule, "resources") & names & place
    return result


# -- the attack ------------------------------------------------------------------------------------------------------


class Finding(Exception):
    """The server and the reference disagree, or somebody gained a right."""


class Campaign:
    """One server and its model, attacked over and over.

    Args:
        seed: Makes it repeatable.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.server: ApiServer = open_server(VirtualClock(), random.Random(seed), None, rbac=True)[0]
        self.counts: Counter[str] = Counter()
        for space in SPACES:
            self.ask(ADMIN, "POST", "/api/v1/namespaces", {"metadata": {"name": space}})
            account = {"metadata": {"name": "robot"}}
            self.ask(ADMIN, "POST", f"/api/v1/namespaces/{space}/serviceaccounts", account)
        self.model = Model()
        self.trace: list[str] = []

    def ask(self, user: User, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
        """Send a write; return code and decoded body."""
        sent = b"" if body is None else json.dumps(body).encode()
        answer = self.server.write(Request(method, path, {}, {"content-type": media}, sent, user))
        return answer.status, json.loads(answer.body)

    def sequence(self, steps: int) -> None:
        """Make a world of random rights, and have users write in it."""
        for plural, space, name in list(self.model.objects):
            self.ask(ADMIN, "DELETE", f"{_place(plural, space)}/{name}")
        self.model, self.trace = Model(), []
        for _ in range(self.rng.randint(3, 7)):
            self.step(ADMIN)
        self.step(ADMIN, ("clusterroles", "", "n0"))
        self.step(ADMIN, ("clusterrolebindings", "", "n0"))
        for _ in range(steps):
            user = self.rng.choice(USERS)
            if self.rng.random() < 0.08:
                self.sidestep(user)
            else:
                self.step(user)
        self.counts["sequences"] += 1

    def step(self, user: User, target: tuple[str, str, str] | None = None) -> None:
        """Have a user write a role or a binding, somehow."""
        rng = self.rng
        plural = rng.choice(("roles", "clusterroles", "rolebindings", "clusterrolebindings"))
        space = "" if plural.startswith("cluster") else rng.choice(SPACES)
        key = target or (plural, space, rng.choice(_NAMES[1:3]))
        plural, space, name = key
        before = {one: self.model.held(one) for one in USERS} if user is not ADMIN else {}
        old, bound = self.model.objects.get(key), self.model.paths_bound(user, space)
        method = rng.choice(("POST", "POST", "PUT", "PATCH", "PATCH", "DELETE")) if user is not ADMIN else "POST"
        if method == "POST" and old is not None and user is ADMIN:
            return
        body = None if method == "DELETE" else self.role(plural) if plural.endswith("roles") else self.binding(space)
        place, media, sent = _place(plural, space), "application/json", body
        if body is not None and method != "PATCH":
            sent = {**body, "metadata": {**body["metadata"], "name": name}}
        elif method == "PATCH":
            assert body is not None
            body = {member: value for member, value in body.items() if rng.random() < 0.7}
            media, sent = self.as_patch(body)
        path = place if method == "POST" else f"{place}/{name}"
        code, answer = self.ask(user, method, path, sent, media)
        self.trace.append(f"{user.name} {method} {path} {json.dumps(sent)} -> {code} {answer.get('message', '')[:300]}")
        self.counts["writes"] += 1
        if code >= 500:
            raise Finding(f"code {code}")
        refused = "attempting to grant" in answer.get("message", "") or "cluster-admin" in answer.get("message", "")
        if code < 300:
            self.counts["accepted"] += 1
            if method == "DELETE":
                self.model.objects.pop(key, None)
            else:
                kept = ("metadata", "rules", "aggregationRule", "roleRef", "subjects")
                self.model.objects[key] = {member: answer[member] for member in kept if member in answer}
                self.model.objects[key].setdefault("subjects", [])
        elif refused:
            self.counts["refused as escalation"] += 1
        if user is not ADMIN:
            self.judge(user, method, key, old, code < 300, refused, before, bound, body)
        if code < 300:
            self.compare()

    def judge(
        self,
        user: User,
        method: str,
        key: tuple[str, str, str],
        old: Json | None,
        accepted: bool,
        refused: bool,
        before: dict[User, int],
        bound: int,
        body: Json | None,
    ) -> None:
        """Check one write of a user against the reference."""
        plural, space, name = key
        mine, asked = before[user], "" if method == "POST" else name
        if accepted and method != "DELETE":
            stored = self.model.objects[key]
            verb = {"POST": "create", "PUT": "update", "PATCH": "patch"}[method]
            if not mine & INDEX[verb, GROUP, plural, space, asked]:
                raise Finding("a write without the right to write")
            if stored != old and not self.may_grant(mine | bound, plural, space, name, stored, old, method):
                raise Finding("more was granted than is held")
        if accepted:
            free = plural.endswith("roles") and mine & INDEX["escalate", GROUP, plural, space, asked]
            if plural.endswith("bindings") and method != "DELETE":
                free = self.may_bind(mine, space, self.model.objects[key])
            for one in USERS:
                if not free and self.model.held(one) & ~(before[one] | mine):
                    raise Finding(f"{one.name} gained what {user.name} does not hold")
        if refused and body is not None and method in ("POST", "PUT"):
            wanted: Json = {**body, "metadata": {**body["metadata"], "name": name}}
            wanted.setdefault("subjects", [])
            if self.may_grant(mine | bound, plural, space, name, wanted, old, method):
                raise Finding("refused, though all that is granted is held")

    def may_bind(self, mine: int, space: str, binding: Json) -> bool:
        """Say whether who holds ``mine`` may bind a role whatever it grants."""
        role = binding["roleRef"]
        resource = "clusterroles" if role["kind"] == "ClusterRole" else "roles"
        return bool(mine & INDEX["bind", GROUP, resource, space, role["name"]])

    def may_grant(
        self, mine: int, plural: str, space: str, name: str, new: Json, old: Json | None, method: str
    ) -> bool:
        """Say by the documentation whether who holds ``mine`` may write this."""
        if plural.endswith("bindings"):
            role = new["roleRef"]
            rules = self.model.rules(role["kind"], space, role["name"])
            return self.may_bind(mine, space, new) or not granted_here(rules, space) & ~mine
        if mine & INDEX["escalate", GROUP, plural, space, "" if method == "POST" else name]:
            return True
        gathers = any((one or {}).get("aggregationRule") for one in (new, None if method == "POST" else old))
        return not granted_here(new.get("rules") or [], space) & ~mine and (not gathers or mine == ALL)

    def compare(self) -> None:
        """Compare what the server decides with the reference, for some of the universe."""
        authorizer = self.server.authorizer
        assert authorizer is not None
        for user in USERS:
            held = self.model.held(user)
            for asked in (*self.rng.sample(UNIVERSE, 8), *(self.near() for _ in range(16))):
                verb, group, resource, space, name = asked
                plural, _, sub = resource.partition("/")
                path = group if group.startswith("/") else ""
                where = ("", "", "", "", "") if path else (group, plural, sub, space, name)
                want = bool(INDEX[asked] & held)
                self.counts["decisions"] += 1
                self.counts["of them allowed"] += want
                if authorizer.allows(user, Attributes(verb, *where, path)) is not want:
                    raise Finding(f"the server decides otherwise on {user.name} {asked}: {want} expected")

    def near(self) -> Question:
        """Return a request that some rule is about, or nearly."""
        rng = self.rng
        rules = [rule for role in self.model.objects.values() for rule in role.get("rules") or ()]
        rule = rng.choice(rules) if rules else {}
        if rule.get("nonResourceURLs"):
            return rng.choice(("get", OTHER)), rng.choice(_PATHS), "", "", ""
        parts = (
            rng.choice(rule.get("verbs") or _VERBS),
            rng.choice(rule.get("apiGroups") or _GROUPS),
            rng.choice(rule.get("resources") or _RESOURCES).replace("*", OTHER),
            rng.choice(("", *SPACES)),
            rng.choice(rule.get("resourceNames") or _NAMES),
        )
        verb, group, resource, space, name = (OTHER if part == "*" else part for part in parts)
        asked = (verb, group, resource, space, name)
        return asked if asked in INDEX else rng.choice(UNIVERSE)

    def sidestep(self, user: User) -> None:
        """Try to become somebody else, by a token or by impersonation."""
        held = self.model.held(user)
        space = self.rng.choice(SPACES)
        path = f"/api/v1/namespaces/{space}/serviceaccounts/robot/token"
        code, _ = self.ask(user, "POST", path, {"spec": {}})
        may = held & INDEX["create", "", "serviceaccounts/token", space, OTHER]
        self.counts["sidesteps"] += 1
        if code == 201 and not may:
            raise Finding("a token without the right to it")
        other = self.rng.choice(("admin", "ann", OTHER))
        headers = [(b"impersonate-user", other.encode()), (b"impersonate-group", b"system:masters")]
        try:
            impersonated(user, headers[: self.rng.randint(1, 2)], self.server.authorizer)
        except ApiError:
            return
        if not held & INDEX["impersonate", "", "users", "", OTHER]:
            raise Finding("an impersonation without the right to it")

    # -- what is written -----------------------------------------------------------------------------------------------

    def some(self, *values: str) -> list[str]:
        """Return one or two of the values, rarely the wildcard."""
        if self.rng.random() < 0.1:
            return ["*"]
        return self.rng.sample(values, self.rng.randint(1, min(2, len(values))))

    def rule(self) -> Json:
        """Return a rule about resources."""
        rng = self.rng
        verbs = ["get", "create", "update", "patch", "delete"] if rng.random() < 0.4 else self.some(*_VERBS[:-1])
        group = rng.choice(("", "", "apps", GROUP, GROUP, GROUP))
        known = _WRITTEN[group]
        wide = group == GROUP and rng.random() < 0.5
        resources = list(known) if wide else self.some(*known, "*/log", "*/scale")
        rule: Json = {"verbs": verbs, "apiGroups": ["*"] if rng.random() < 0.1 else [group], "resources": resources}
        if rng.random() < 0.15:
            rule["resourceNames"] = self.some("n0", "n1")
            rule["resourceNames"] = [one for one in rule["resourceNames"] if one != "*"] or ["n0"]
        return rule

    def role(self, plural: str) -> Json:
        """Return a role without its name."""
        rng = self.rng
        role: Json = {"metadata": {}, "rules": [self.rule() for _ in range(rng.randint(0, 3))]}
        if plural == "clusterroles":
            if rng.random() < 0.2:
                paths = self.some("/metrics", "/logs", "/logs/*", "/logs*")
                role["rules"].append({"verbs": ["get"], "nonResourceURLs": paths})
            if rng.random() < 0.3:
                role["metadata"]["labels"] = {"gather": "yes"}
            if rng.random() < 0.1:
                role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"gather": "yes"}}]}
        return role

    def binding(self, space: str) -> Json:
        """Return a binding without its name."""
        rng = self.rng
        kind = rng.choice(("Role", "ClusterRole")) if space else "ClusterRole"
        reference = {"apiGroup": GROUP, "kind": kind, "name": rng.choice(_NAMES[1:3])}
        palette: list[Json] = [
            *({"apiGroup": GROUP, "kind": "User", "name": user.name} for user in USERS[:3]),
            {"apiGroup": GROUP, "kind": "Group", "name": "team"},
            {"apiGroup": GROUP, "kind": "Group", "name": "ops"},
            {"kind": "ServiceAccount", "name": "robot", "namespace": "a"},
        ]
        return {"metadata": {}, "roleRef": reference, "subjects": rng.sample(palette, rng.randint(1, 3))}

    def as_patch(self, body: Json) -> tuple[str, Any]:
        """Return a patch that sets the members of a body, in one of three forms."""
        form = self.rng.choice(("merge", "strategic", "json"))
        body = {member: value for member, value in body.items() if member != "metadata" or value}
        if form == "json":
            return "application/json-patch+json", [
                {"op": "add", "path": f"/{member}", "value": value}
                for member, value in body.items()
                if member != "metadata"
            ]
        return f"application/{form}-patch+json".replace("strategic-", "strategic-merge-"), body


def granted_here(rules: list[Json], space: str) -> int:
    """Return what rules grant where they stand, paths among it wherever that is."""
    return granted(rules, space) | granted(_paths_of(rules), "")


def _place(plural: str, space: str) -> str:
    return f"{BASE}/namespaces/{space}/{plural}" if space else f"{BASE}/{plural}"


async def attack(count: int, seed: int, steps: int = 8) -> Counter[str]:
    """Run sequences; return counts.

    Raises:
        Finding: With the writes that led to it.
    """
    campaign = Campaign(seed)
    for number in range(count):
        try:
            campaign.sequence(steps)
        except Finding as found:
            trace = "\n  ".join(campaign.trace)
            raise Finding(f"{found}; seed {seed}, sequence {number}\n  {trace}") from found
        if sys.stderr.isatty() and number % 100 == 0:
            print(f"\r{number}/{count}", end="", file=sys.stderr)
    return campaign.counts


def main() -> int:
    """Return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="sequences")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        counts = asyncio.run(attack(options.count, options.seed))
    except Finding as found:
        print(found)
        return 1
    for name, value in counts.items():
        print(f"{name:<24}{value:>12,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
