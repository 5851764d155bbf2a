"""The soak notices memory that grows."""

import pytest

from tests.attack import soak


def series(growth: float) -> list[soak.Sample]:
    return [soak.Sample(float(at), "p", 100.0 * (1.0 + growth * at / 100.0)) for at in range(100)]


@pytest.mark.attack
@pytest.mark.parametrize(("growth", "flat"), [(0.0, True), (0.05, True), (0.2, False)])
def test_growth_is_noticed(growth: float, flat: bool) -> None:
    (_, _, holds) = soak.verdict(series(growth), 100.0)["p"]
    assert holds is flat
