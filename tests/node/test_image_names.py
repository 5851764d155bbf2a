"""What names of images mean, and which credentials are for them."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from strato.node.images.credentials import BadCredentials, Credential, docker_credentials, parse_config
from strato.node.images.references import InvalidImageName, parse_reference

DIGEST = "sha256:" + "a" * 64
NAMES = [
    ("busybox", "docker.io", "library/busybox", "latest", "", "busybox:latest"),
    ("team/tool:1.2", "docker.io", "team/tool", "1.2", "", "team/tool:1.2"),
    ("docker.io/library/busybox", "docker.io", "library/busybox", "latest", "", "busybox:latest"),
    ("index.docker.io/busybox", "docker.io", "library/busybox", "latest", "", "busybox:latest"),
    ("localhost/a", "localhost", "a", "latest", "", "localhost/a:latest"),
    ("r:5000/a", "r:5000", "a", "latest", "", "r:5000/a:latest"),
    ("ghcr.io/a/b/c:x", "ghcr.io", "a/b/c", "x", "", "ghcr.io/a/b/c:x"),
    (f"a@{DIGEST}", "docker.io", "library/a", "", DIGEST, f"a@{DIGEST}"),
    (f"r.io/a:1@{DIGEST}", "r.io", "a", "1", DIGEST, f"r.io/a@{DIGEST}"),
    ("[::1]:5000/a", "[::1]:5000", "a", "latest", "", "[::1]:5000/a:latest"),
]


@pytest.mark.parametrize(
    ("name", "registry", "repository", "tag", "digest", "familiar"), NAMES, ids=[n[0] for n in NAMES]
)
def test_a_name_means(name: str, registry: str, repository: str, tag: str, digest: str, familiar: str) -> None:
    found = parse_reference(name)
    assert (found.registry, found.repository, found.tag, found.digest) == (registry, repository, tag, digest)
    assert found.familiar == familiar
    assert parse_reference(familiar).familiar == familiar


BAD = ["", " ", "A", "a b", "a:", "a:b:c", "a@sha256:0", "a@md5:0", "a//b", "/a", "a/", "../a", "a..b", "https://r/a",
       "a:-x", "r:x/a", "a" * 300, "x" + "/y" * 200, "a\n", "a\0b", "é"]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidImageName, match="is invalid"):
        parse_reference(name)


def config(**auths: str) -> str:
    pairs = {key: {"auth": base64.b64encode(f"{user}:p:w".encode()).decode()} for key, user in auths.items()}
    return json.dumps({"auths": pairs})


MATCHES = [
    ({"https://index.docker.io/v1/": "u"}, "busybox", "u"),
    ({"docker.io": "u"}, "team/tool", "u"),
    ({"r.io": "u"}, "r.io/a/b", "u"),
    ({"r.io": "u", "r.io/a": "v"}, "r.io/a/b", "v u"),
    ({"r.io/a": "u"}, "r.io/ab/c", ""),
    ({"r.io/a/b": "u"}, "r.io/a/b", "u"),
    ({"https://r.io/v2/": "u"}, "r.io/a", "u"),
    ({"*.r.io": "u"}, "x.r.io/a", "u"),
    ({"*.r.io": "u"}, "r.io/a", ""),
    ({"*.r.io": "u"}, "x.y.r.io/a", ""),
    ({"*": "u"}, "r.io/a", ""),
    ({"r.io:5000": "u"}, "r.io/a", ""),
    ({"r.io": "u"}, "r.io:5000/a", ""),
    ({"r.io": "u"}, "evil-r.io/a", ""),
]


@pytest.mark.parametrize(("auths", "image", "users"), MATCHES)
def test_credentials_are_for_their_registry_and_path_alone(auths: dict[str, str], image: str, users: str) -> None:
    found = parse_config(config(**auths), "here").matching(parse_reference(image))
    assert [credential.username for credential in found] == users.split()
    assert all(credential.password == "p:w" for credential in found)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", '{"auths": 1}', '{"auths": {"r": 1}}', '{"auths": {"r": {"auth": "eA=="}}}', "[" * 100_000],
)
def test_a_configuration_that_is_none_is_named(text: str) -> None:
    with pytest.raises(BadCredentials, match="secret 's' is no Docker configuration"):
        parse_config(text, "secret 's'")


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Credential("u", "secret", "secret"))


HELPER = """#!/bin/sh
read registry
case $registry in
  one.io) echo '{"Username": "u", "Secret": "s"}';;
  two.io) echo '{"Username": "<token>", "Secret": "t"}';;
  three.io) echo 'credentials not found in native keychain'; exit 1;;
  *) echo oops; exit 1;;
esac
"""


async def test_credential_helpers_are_asked_for_their_registries(tmp_path: Path, monkeypatch: Any) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(HELPER)
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {"own.io": "missing"}, "credsStore": "test"}))
    environ = {"DOCKER_CONFIG": str(tmp_path)}

    async def asked(image: str) -> list[Credential]:
        return await docker_credentials(parse_reference(image), environ)

    assert await asked("one.io/a") == [Credential("u", "s")]
    assert await asked("two.io/a") == [Credential(identity_token="t")]
    assert await asked("three.io/a") == []
    with pytest.raises(BadCredentials, match=r"status 1 for four\.io"):
        await asked("four.io/a")
    with pytest.raises(BadCredentials, match="docker-credential-missing cannot be started"):
        await asked("own.io/a")
    assert await docker_credentials(parse_reference("one.io/a"), {"HOME": str(tmp_path)}) == []
