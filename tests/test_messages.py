"""Messages are for people: no errno, no class of Python's where the system's or a value's own name belongs."""

from __future__ import annotations

import ast
import errno
import os
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strato.errors import called, one_line

SOURCE = Path(__file__).parents[1] / "src" / "strato"
_SYSTEM = {"OSError", "IOError", "ConnectionError", "FileNotFoundError", "PermissionError", "SSLError"}
_LOG = {"debug", "info", "warning", "error"}
_VALUES = {"document", "body", "preconditions", "value", "obj", "item", "spec"}


def numbers_shown(tree: ast.AST) -> Iterator[int]:
    """Yield the lines where an error of the system is written as Python writes it: with its errno."""
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or not handler.name or handler.type is None:
            continue
        caught = {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)}
        caught |= {part.attr for part in ast.walk(handler.type) if isinstance(part, ast.Attribute)}
        if not caught & _SYSTEM:
            continue
        for node in ast.walk(handler):
            shown: list[ast.expr] = []
            if isinstance(node, ast.FormattedValue):
                shown = [node.value]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOG:
                shown = node.args[1:]
            if any(isinstance(part, ast.Name) and part.id == handler.name for part in shown):
                yield node.lineno


def classes_shown(tree: ast.AST) -> Iterator[int]:
    """Yield the lines where a message calls a user's value by its class in Python."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Attribute):
            inner = node.value.value
            if node.value.attr == "__name__" and isinstance(inner, ast.Call) and isinstance(inner.args[0], ast.Name):
                yield from [node.lineno] if inner.args[0].id in _VALUES else []


def test_no_message_shows_an_errno_or_a_class() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        found += [f"{path}:{line}: use strato.errors.one_line" for line in numbers_shown(tree)]
        found += [f"{path}:{line}: use strato.errors.called" for line in classes_shown(tree)]
    assert found == []


def test_what_is_looked_for_is_found() -> None:
    bad = "try:\n  f()\nexcept (ValueError, OSError) as e:\n  log.info('x %s', e)\n  raise X(f'{e}')\n"
    assert sorted(numbers_shown(ast.parse(bad))) == [4, 5]
    assert list(classes_shown(ast.parse("f'not {type(value).__name__}'"))) == [1]


ERRORS: list[Any] = [
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "a.yaml"), "a.yaml: No such file or directory"),
    (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
    (
        OSError(
            "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 111] Connect call failed"
        ),
        "Connection refused",
    ),
    (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
    (
        ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: x (_ssl.c:1016)"),
        "certificate verify failed: x",
    ),
    (OSError(errno.EPERM, f"mount /x: {os.strerror(errno.EPERM)}"), "mount /x: Operation not permitted"),
    (OSError("in our own words"), "in our own words"),
    (ConnectionResetError(), "the other side broke the connection off"),
    (ValueError("two\n lines"), "two lines"),
]


@pytest.mark.parametrize(("error", "text"), ERRORS)
def test_an_error_of_the_system_is_said_in_words(error: Exception, text: str) -> None:
    assert one_line(error) == text
    assert not re.search(r"Errno|_ssl|\d{4}", one_line(error))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "nothing"), ([], "a list"), ({}, "an object"), (True, "true or false"), (1.5, "a number")],
)
def test_a_value_is_called_as_yaml_calls_it(value: object, text: str) -> None:
    assert called(value) == text
