"""What is stored encrypted: bound to its place, written by the first key, read by all."""

from __future__ import annotations

import pytest

from strato.server.encryption import Encryption, Key, WrongKey, key_id_of, require_plain

ONE, TWO = Key("one", b"1" * 32), Key("two", b"2" * 32)
BODY = b'{"data":{"password":"c2VjcmV0"}}'


def test_the_first_key_writes_and_all_read() -> None:
    old = Encryption([ONE]).seal("secrets", "a/b", 7, BODY)
    both = Encryption([TWO, ONE])
    new = both.seal("secrets", "a/b", 7, BODY)
    assert [key_id_of(stored) for stored in (old, new, BODY)] == ["one", "two", None]
    assert [both.unseal("secrets", "a/b", 7, stored) for stored in (old, new, BODY)] == [BODY] * 3
    assert [both.is_current("secrets", stored) for stored in (old, new, BODY)] == [False, True, False]
    assert both.is_current("pods", BODY)
    assert BODY not in new
    assert new != both.seal("secrets", "a/b", 7, BODY), "equal bodies do not look equal"


@pytest.mark.parametrize(
    ("resource", "key", "revision"),
    [
        pytest.param("configmaps", "a/b", 7, id="another resource"),
        pytest.param("secrets", "a/c", 7, id="another name"),
        pytest.param("secrets", "a/b", 8, id="another revision"),
    ],
)
def test_a_ciphertext_means_nothing_elsewhere(resource: str, key: str, revision: int) -> None:
    encryption = Encryption([ONE], source="keys")
    stored = encryption.seal("secrets", "a/b", 7, BODY)
    with pytest.raises(WrongKey, match=f"{resource} {key} cannot be decrypted with key 'one' of keys"):
        encryption.unseal(resource, key, revision, stored)


def test_keys_that_are_missing_are_named() -> None:
    stored = Encryption([ONE]).seal("secrets", "a/b", 7, BODY)
    with pytest.raises(WrongKey, match="key 'one', which keys does not have"):
        Encryption([TWO], source="keys").unseal("secrets", "a/b", 7, stored)
    with pytest.raises(WrongKey, match="start with --encryption-key-file"):
        require_plain("secrets", "a/b", stored)
    assert require_plain("secrets", "a/b", BODY) == BODY


def test_what_is_to_be_plain_again_is_not_current() -> None:
    stored = Encryption([ONE]).seal("secrets", "a/b", 7, BODY)
    plain = Encryption([ONE], writes_plain=True)
    assert plain.unseal("secrets", "a/b", 7, stored) == BODY
    assert not plain.is_current("secrets", stored)
    assert plain.is_current("secrets", BODY)
    assert plain.resources == frozenset()
