from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.node.hollow.cpushare import fair_shares

CASES = [
    pytest.param(8, [1, 2, 3], [1, 1, 1], [1, 2, 3], id="room for all: everybody gets what it wants"),
    pytest.param(6, [6, 6], [1, 1], [3, 3], id="equal weights share equally"),
    pytest.param(6, [6, 6], [2000, 1000], [4, 2], id="by weight"),
    pytest.param(6, [1, 6, 6], [1, 1, 1], [1, 2.5, 2.5], id="what one leaves is shared by the others"),
    pytest.param(6, [1, 6, 6], [4, 1, 2], [1, 5 / 3, 10 / 3], id="… by their weights"),
    pytest.param(4, [0, 8], [1000, 2], [0, 4], id="an idle one of great weight costs nothing"),
    pytest.param(0, [1, 1], [1, 1], [0, 0], id="no cores"),
    pytest.param(4, [], [], [], id="nobody"),
]


@pytest.mark.parametrize(("cores", "wanted", "weights", "shares"), CASES)
def test_shares(cores: float, wanted: list[float], weights: list[float], shares: list[float]) -> None:
    assert fair_shares(cores, wanted, weights) == pytest.approx(shares)


@given(
    st.floats(0, 1000),
    st.lists(st.tuples(st.floats(0, 100), st.floats(2, 1e5)), max_size=20),
)
def test_cpu_is_conserved_and_nobody_envies_by_weight(cores: float, many: list[tuple[float, float]]) -> None:
    wanted, weights = [one[0] for one in many], [one[1] for one in many]
    given_ = fair_shares(cores, wanted, weights)
    assert sum(given_) == pytest.approx(min(cores, sum(wanted)))
    assert all(0 <= one <= most for one, most in zip(given_, wanted, strict=True))
    for one, most, weight in zip(given_, wanted, weights, strict=True):
        if one < most * (1 - 1e-9):  # who is held back has no less by weight than anybody
            assert all(
                one / weight >= other / of * (1 - 1e-6) - 1e-9 for other, of in zip(given_, weights, strict=True)
            )
