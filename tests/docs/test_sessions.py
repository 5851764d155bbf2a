"""How the pages' sessions are read; ``tests/e2e/test_docs.py`` types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import sessions
from tests.docs.sessions import Failed, Reader

NOT_RUN = {
    "deploy/README.md": 1,
    "docs/from-mesos.md": 2,
}
"""Commands that the tests do not type, by page. The page says so and why, below the block."""

PAGE = """
```console
$ strato up   # a comment
cluster is up at …
$ echo a \\
    b

$ true
```

```console world=cluster
$ strato install
```

```console
$ helm install
```

*Not run by the tests: needs helm,
and a cluster.*

```text
$ no session
```
"""


def test_a_pages_session_is_read(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    here, cluster, helm = sessions.blocks("page.md", tmp_path)
    assert [step.command for step in here.steps] == ["strato up   # a comment", "echo a \\\n    b", "true"]
    assert [step.shows for step in here.steps] == [("cluster is up at …",), (), ()]
    assert [step.line for step in here.steps] == [3, 5, 8]
    assert (here.world, cluster.world, helm.world) == ("", "cluster", "")
    assert (here.not_run, cluster.not_run, helm.not_run) == ("", "", "needs helm, and a cluster")


@pytest.mark.parametrize(
    ("shows", "missing"),
    [
        (["one", "three"], ""),
        (["three", "one"], "one"),
        (["o…e", "…"], ""),
        (["on"], "on"),
        (["  t   wo  "], ""),
    ],
)
def test_what_is_shown_must_be_printed_in_order(shows: list[str], missing: str) -> None:
    assert sessions.missing(shows, "one\nt wo\nthree\n") == missing


def test_every_command_is_typed_or_says_why_not() -> None:
    not_run: dict[str, int] = {}
    for page in sessions.pages():
        for block in sessions.blocks(page):
            if block.not_run:
                not_run[page] = not_run.get(page, 0) + len(block.steps)
    assert not_run == NOT_RUN


def test_commands_are_in_console_blocks() -> None:
    """A block without a language, or of the shell's, would not be typed."""
    for page in sessions.pages():
        for block in (sessions.ROOT / page).read_text().split("\n```")[1::2]:
            language, _, text = block.partition("\n")
            if language in ("", "sh", "bash", "shell"):
                assert not text.lstrip().startswith(("strato ", "$ ", "kubectl ", "helm ", "pip ")), f"{page}:\n{text}"


@pytest.mark.parametrize(
    ("page", "want"),
    [
        ("$ true\n$ echo one two\none …\n", ""),
        ("$ echo one\ntwo\n", "page.md:3: `echo one` does not show\ntwo"),
        ("$ false\n", "page.md:3: `false` ended with status 1"),
        ("$ cd /\n$ pwd\n/\n$ printf '%s\\n' $HOME\n…home\n", ""),
    ],
)
def test_a_session_is_one_shell_and_tells_where_it_went_wrong(tmp_path: Path, page: str, want: str) -> None:
    (tmp_path / "page.md").write_text(f"\n```console\n{page}```\n")
    (tmp_path / "home").mkdir()
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "strato").write_text("#!/bin/sh\n")
    (programs / "strato").chmod(0o755)
    session = sessions.blocks("page.md", tmp_path)
    who = Reader(tmp_path, programs, tmp_path / "home")
    if want:
        with pytest.raises(Failed) as caught:
            sessions.run(session, who)
        assert str(caught.value).startswith(want)
    else:
        assert sessions.run(session, who) == page.count("$ ") - page.count("$ $")
