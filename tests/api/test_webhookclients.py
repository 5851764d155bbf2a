"""Where a webhook is, as configurations of admission and definitions write it."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api.validation.webhookclients import client_problems

SERVICE = {"name": "hook", "namespace": "ns"}
CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["at: exactly one of url or service is required"]),
    ({"url": "https://a", "service": SERVICE}, ["at: exactly one of url or service is required"]),
    ({"service": {}}, ["at.service.name: ", "at.service.namespace: "]),
    ({"service": SERVICE}, []),
    ({"service": {**SERVICE, "path": "", "port": 1}}, []),
    ({"service": {**SERVICE, "path": "/"}}, []),
    ({"service": {**SERVICE, "path": "/a/b.c/"}}, []),
    ({"service": {**SERVICE, "port": 65536}}, ["at.service.port: port is not valid"]),
    ({"service": {**SERVICE, "path": "a"}}, ["at.service.path: must start with a '/'", "may not be empty"]),
    ({"service": {**SERVICE, "path": "//"}}, ["at.service.path: segment[0] may not be empty"]),
    ({"service": {**SERVICE, "path": "/a//b"}}, ["at.service.path: segment[1] may not be empty"]),
    ({"service": {**SERVICE, "path": "/a/B"}}, ["at.service.path: a lowercase RFC 1123 subdomain"]),
    ({"url": "https://a:1/p"}, []),
    ({"url": "http://a"}, ["'https' is the only allowed URL scheme"]),
    ({"url": "https://"}, ["host must be specified"]),
    ({"url": "https://[::"}, ["url must be a valid URL"]),
    ({"url": "https://u@a?b#c"}, ["user information", "fragments", "query parameters"]),
]


@pytest.mark.parametrize(("config", "problems"), CASES)
def test_what_is_wrong_is_said(config: dict[str, Any], problems: list[str]) -> None:
    found = [f"{cause.field}: {cause.message}" for cause in client_problems(config, "at")]
    assert len(found) == len(problems), found
    for text, problem in zip(found, problems, strict=True):
        place, _, what = problem.rpartition(": ")
        assert text.startswith(place), text
        assert what in text
