"""Compose a server: in memory for tests and simulations, with a journal for ``strato up``."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from ipaddress import IPv4Network
from pathlib import Path

from strato.admission import Chain, ChainOptions
from strato.api.kinds import Kind
from strato.clock import Clock, work_timer
from strato.metrics import Registry as Metrics
from strato.server.api import Access, ApiServer
from strato.server.auth.authorizer import RbacAuthorizer, WriteRights
from strato.server.discovery import Discovery
from strato.server.encryption import Encryption
from strato.server.expiry import EventExpiry
from strato.server.flowcontrol.control import FlowControl
from strato.server.flowcontrol.dispatch import counting_timer
from strato.server.journal import OpenedStore, SqliteJournal, open_store
from strato.server.openapi import OpenApi
from strato.server.preparation import Json
from strato.server.registry import Registry
from strato.server.rest.state import AdmitAll, State
from strato.server.rest.tokens import Tokens
from strato.server.rootca import RootCertificates
from strato.server.seed import KindInUse, seed, seed_flow_control
from strato.server.services.allocation import DEFAULT_NETWORK, ServiceAddresses
from strato.server.store import Store


def in_memory_server(
    clock: Clock,
    rng: random.Random | None = None,
    *,
    chain: Chain | None = None,
    tokens: Tokens | None = None,
    memoises: bool = True,
) -> ApiServer:
    """Return a server without a journal that serves Volcano's kinds and allows every user everything.

    Without ``memoises`` no step of a write is skipped; tests compare the other servers with such a one.
    """
    store = Store()
    return _assemble(
        store,
        clock,
        rng or random.Random(0),
        counting_timer(),
        chain=chain or Chain(),
        tokens=tokens,
        memoises=memoises,
    )


def open_server(
    clock: Clock,
    rng: random.Random,
    journal_path: Path | None,
    *,
    chain: Chain | None = None,
    rbac: bool = False,
    bootstrap: Iterable[Json] = (),
    metrics: Metrics | None = None,
    tokens: Tokens | None = None,
    root_certificate: str = "",
    encryption: Encryption | None = None,
    service_network: IPv4Network = DEFAULT_NETWORK,
    off: Collection[Kind] = (),
    opened: OpenedStore | None = None,
) -> tuple[ApiServer, SqliteJournal | None]:
    """Return a server over a journal (None keeps nothing); must be called on its event loop.

    Args:
        clock: Gives objects their times.
        rng: Gives objects their generated names and uids.
        journal_path: The journal's file.
        chain: Admission; None takes our own rules.
        rbac: Whether roles decide who may do what; otherwise every user may do everything.
        bootstrap: Objects to create if they are missing, such as the roles that ``rbac`` evaluates.
        metrics: Gets the counts of requests.
        tokens: Reviews tokens and issues those of service accounts.
        root_certificate: The CA that pods verify this server with, PEM; put into every namespace.
        encryption: Encrypts resources in the journal; None encrypts nothing.
        service_network: The range of cluster IPs.
        off: Kinds of ours that are not served.
        opened: The result of `open_store` for this path and encryption, if another thread has read the journal.

    Raises:
        KindInUse: There are objects of a kind in ``off``.
    """
    store, journal = opened or open_store(journal_path, encryption)
    if journal is not None:
        journal.start(store)
    try:
        server = _assemble(
            store,
            clock,
            rng,
            work_timer,
            chain=chain or Chain(ChainOptions(mount_service_account_tokens=tokens is not None)),
            rbac=rbac,
            bootstrap=bootstrap,
            metrics=metrics,
            tokens=tokens,
            root_certificate=root_certificate,
            service_network=service_network,
            off=off,
        )
    except KindInUse:
        if journal is not None:
            journal.close()
        raise
    return server, journal


def server_over(store: Store, clock: Clock, rng: random.Random) -> ApiServer:
    """Return a server over a store whose durability is the caller's; it counts slices of work, for repeatable runs."""
    return _assemble(store, clock, rng, counting_timer(), chain=Chain())


def _assemble(
    store: Store,
    clock: Clock,
    rng: random.Random,
    timer: Callable[[], float],
    *,
    chain: Chain,
    rbac: bool = False,
    bootstrap: Iterable[Json] = (),
    metrics: Metrics | None = None,
    tokens: Tokens | None = None,
    root_certificate: str = "",
    memoises: bool = True,
    service_network: IPv4Network = DEFAULT_NETWORK,
    off: Collection[Kind] = (),
) -> ApiServer:
    registry = Registry(covered=chain.covers)
    flows = FlowControl(store, timer)
    state = State(store, clock, rng, registry, AdmitAll(), flows)
    seed(state, bootstrap, off)
    if rbac:
        seed_flow_control(state)
    if root_certificate:
        RootCertificates(state, root_certificate)
    EventExpiry(state)
    authorizer = RbacAuthorizer.of_store(store) if rbac else None
    server = ApiServer(
        store,
        clock,
        rng,
        registry=registry,
        admission=chain,
        access=Access(
            authorizer, None if authorizer is None else lambda state: WriteRights(authorizer, state.latest), tokens
        ),
        flows=flows,
        memoises=memoises,
    )
    server.state.services = ServiceAddresses(server.state, service_network)
    server.add_pages(Discovery(registry, clock), OpenApi(registry))
    if metrics is not None:
        server.report_to(metrics)
    return server
