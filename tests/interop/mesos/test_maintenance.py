"""Maintenance: whom the allocator asks to leave an agent, and how often."""

from __future__ import annotations

from strato.interop.mesos.filters import Moment
from strato.interop.mesos.maintenance import InverseOfferStatus, Maintenance
from strato.interop.mesos.specs import AgentId, FrameworkId, Unavailability

A, B, ONE = FrameworkId("a"), FrameworkId("b"), AgentId("one")
WINDOW = Unavailability(100.0)


def asked(maintenance: Maintenance, now: Moment = Moment(0.0, 0)) -> list[FrameworkId]:  # noqa: B008 - immutable
    return [one.framework for one in maintenance.ask(ONE, [A, B], now)]


def test_without_a_window_nobody_is_asked() -> None:
    maintenance = Maintenance()
    assert asked(maintenance) == []
    maintenance.answer(ONE, A, InverseOfferStatus.ACCEPT, Moment(0.0, 0), 5.0)
    assert maintenance.answers() == {}


def test_each_is_asked_until_it_answers_and_again_after_its_filter() -> None:
    maintenance = Maintenance()
    maintenance.set(ONE, WINDOW)
    assert asked(maintenance) == [A, B]
    assert asked(maintenance) == []
    maintenance.answer(ONE, A, InverseOfferStatus.ACCEPT, Moment(1.0, 1), 5.0)
    maintenance.answer(ONE, B, None, Moment(1.0, 1), 0.0)
    assert asked(maintenance, Moment(2.0, 2)) == [B]
    assert asked(maintenance, Moment(6.0, 1)) == []
    assert asked(maintenance, Moment(6.0, 6)) == [A]
    assert maintenance.answers() == {ONE: {A: InverseOfferStatus.ACCEPT, B: InverseOfferStatus.UNKNOWN}}


def test_a_late_answer_to_an_old_window_counts_for_nothing() -> None:
    maintenance = Maintenance()
    maintenance.set(ONE, WINDOW)
    asked(maintenance)
    maintenance.set(ONE, Unavailability(200.0, 5.0))
    maintenance.answer(ONE, A, InverseOfferStatus.ACCEPT, Moment(1.0, 1), 5.0)
    assert maintenance.answers() == {ONE: {}}
    assert asked(maintenance) == [A, B]


def test_who_goes_is_asked_anew_when_it_is_back() -> None:
    maintenance = Maintenance()
    maintenance.set(ONE, WINDOW)
    asked(maintenance)
    maintenance.forget(A)
    assert asked(maintenance) == [A]
    maintenance.answer(ONE, A, InverseOfferStatus.DECLINE, Moment(0.0, 0), 1000.0)
    maintenance.clear_filters(A)
    assert asked(maintenance) == [A]
