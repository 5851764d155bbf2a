"""Open the embedded API server with its certificates, tokens, journal, HTTPS port and kubeconfigs."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from strato.api import catalog
from strato.api.defaults.queues import initial_queues
from strato.api.kinds import Kind
from strato.api.wire import Handler, User
from strato.cli.auditing import AuditOptions
from strato.cli.home import Home, node_name
from strato.cli.logrotation import logs_of
from strato.cli.servicenetwork import ANY_HOST, machine_addresses, service_network, service_port
from strato.cli.storage import StorageOptions
from strato.client.local import LocalCluster
from strato.clock import Clock
from strato.errors import ApiError
from strato.http.headers import host_port
from strato.http.listen import HttpServer, serve
from strato.http.service import HttpService
from strato.http.tls import server_context
from strato.metrics import Registry
from strato.node.sandbox.network import machine_address
from strato.server import bootstrap
from strato.server.api import ApiServer
from strato.server.auth import kubeconfig
from strato.server.auth.accounts import AccountTokens
from strato.server.auth.ca import CertificateAuthority
from strato.server.auth.discovery import IssuerPages
from strato.server.auth.identity import Authenticator
from strato.server.auth.impersonation import impersonated
from strato.server.auth.tokens import Tokens
from strato.server.backups import Backups
from strato.server.embedded import open_server
from strato.server.encryption import load_encryption
from strato.server.http import create_app
from strato.server.journal import SqliteJournal, open_store
from strato.server.opening import Opening
from strato.server.readiness import Readiness
from strato.server.services.kubernetes import Advertised, publish

if TYPE_CHECKING:
    from strato.server.audit.log import AuditLog

_log = logging.getLogger(__name__)
_IN_CLUSTER = "kubernetes.default.svc.cluster.local"
JOURNAL = "journal.sqlite"
COMPONENTS = (bootstrap.SCHEDULER, bootstrap.CONTROLLERS, bootstrap.HOLLOW_NODES, bootstrap.WEBHOOK)


@dataclass(frozen=True, slots=True)
class Auditing:
    """The audit log, and the server wrapped so that requests are recorded in it."""

    log: AuditLog
    service: HttpService
    """The HTTP service; records each request before passing it on."""
    handler: Handler
    """The server's core for callers in this process; records each request too."""


@dataclass(frozen=True, slots=True)
class Api:
    """An API server that listens on its HTTPS port."""

    home: Home
    server: ApiServer
    http: HttpServer
    journal: SqliteJournal | None
    background: tuple[asyncio.Task[None], ...]
    """Tasks, such as the scheduled backups, that `close` cancels."""
    address: str
    """``https://host:port``, as this machine reaches it."""
    auditing: Auditing | None = None

    @property
    def handler(self) -> Handler:
        """The handler for the cluster's own components, which skip HTTP; it records requests when auditing is on."""
        return self.server if self.auditing is None else self.auditing.handler

    def client(self, user: User) -> LocalCluster:
        """Return a read-uncommitted client: a crash that loses a write ends the components of this process too."""
        return LocalCluster(self.handler, user, uncommitted=True)

    async def close(self) -> None:
        """Answer the requests under way, stop listening, and close the journal and the audit log."""
        self.home.ready_file.unlink(missing_ok=True)
        for task in self.background:
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)
        await self.http.stop()
        await self.server.state.webhooks.close()
        if self.journal is not None:
            self.journal.close()
        if self.auditing is not None:
            await asyncio.to_thread(self.auditing.log.close)


async def open_api(
    home: Home,
    clock: Clock,
    random: Random,
    metrics: Registry,
    *,
    host: str,
    port: int,
    data_dir: Path | None,
    other_metrics: Callable[[], Awaitable[bytes]] | None = None,
    storage: StorageOptions | None = None,
    audit: AuditOptions | None = None,
    off: Collection[Kind] = (),
    opening: Opening | None = None,
) -> Api:
    """Open the server and write the kubeconfigs: the administrator's, a reader's, one for each component.

    Args:
        home: Where keys, tokens and kubeconfigs are.
        clock: Time of objects, certificates and log records.
        random: Source of generated names and of jitter in retries.
        metrics: Registry that ``/metrics`` renders.
        host: Address to listen on.
        port: 0 picks a free one.
        data_dir: Directory of the journal; None keeps all objects in memory only.
        other_metrics: Returns the companion's metrics, which ``/metrics`` appends.
        storage: How the journal is encrypted and backed up.
        audit: Audit policy and log file.
        off: Kinds of training jobs that the server does not serve.
        opening: Serves the objects of the journal that have been read already, while the others are read; the caller
            opens it.

    Raises:
        UsageError: The address is taken, or files in the home cannot be used.
    """
    storage = storage or StorageOptions()
    encryption = load_encryption(Path(storage.encryption_key_file)) if storage.encryption_key_file else None
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    home.path.chmod(0o700)  # also when the directory was there before: it holds the cluster's keys
    tokens = Tokens(home.tokens)
    identities = kubeconfigs(home)
    tokens.ensure(identities.values())
    authority = CertificateAuthority(home.pki, clock)
    network = service_network(home.pki / "service-network", str(home.path))
    accounts = AccountTokens(home.pki / "sa.key", clock)
    authenticator = Authenticator(tokens, authority, accounts)
    path = None if data_dir is None else data_dir / JOURNAL
    opened = await asyncio.to_thread(open_store, path, encryption, opening.take if opening is not None else None)
    if opening is not None:
        opening.finish(opened[0].published)
    server, journal = open_server(
        clock,
        random,
        path,
        opened=opened,
        rbac=True,
        bootstrap=[*bootstrap.objects(), bootstrap.default_storage_class()],
        metrics=metrics,
        tokens=authenticator,
        root_certificate=authority.certificate.decode(),
        encryption=encryption,
        service_network=network,
        off=off,
    )
    await _create_queues(server)
    own = machine_address()
    everywhere = machine_addresses() if host in ANY_HOST else ()
    names = (host, socket.gethostname(), _IN_CLUSTER, str(network[1]), own, *everywhere)
    certificate, key = authority.server_files(names)
    app = create_app(
        server,
        authenticator,
        metrics,
        authorize_path=server.authorize_path,
        impersonate=partial(impersonated, authorizer=server.authorizer),
        ready=Readiness(server.store, journal, off),
        other_metrics=other_metrics,
        flows=server.state.flows,
    )
    auditing = _begin_audit(server, app, clock, metrics, audit) if audit is not None and audit.policy_file else None
    service = app if auditing is None else auditing.service
    tls = server_context(certificate, key, client_ca=authority.certificate_path)
    http = await serve(service, host, port, tls=tls, clock=clock)
    publish(
        server.state, Advertised(network=network, service_port=service_port(http.port), address=own, port=http.port)
    )
    server.add_pages(IssuerPages(accounts))
    server.use_nodes(authority.client)
    address = f"https://{host_port('127.0.0.1' if host in ANY_HOST else host, http.port)}"
    for path, user in identities.items():
        kubeconfig.write(path, address, user=user.name, token=tokens.token(user.name), ca=authority.certificate)
    background = () if journal is None else _start_background(home, server, journal, clock, storage)
    return Api(home, server, http, journal, background, address, auditing)


def _begin_audit(
    server: ApiServer, app: HttpService, clock: Clock, metrics: Registry, options: AuditOptions
) -> Auditing:
    """Open the audit log."""
    from strato.server.audit.log import AuditLog
    from strato.server.audit.policy import load
    from strato.server.audit.service import AuditedHandler, AuditedService, Auditor, decode

    log = AuditLog(
        options.log_path,
        clock,
        decode,
        max_age_days=options.max_age_days,
        max_backups=options.max_backups,
        max_megabytes=options.max_megabytes,
    )
    metrics.collect(log.samples)
    auditor = Auditor(load(Path(options.policy_file)), log, clock, server.authorizer)
    return Auditing(log, AuditedService(app, auditor), AuditedHandler(server, auditor))


def _start_background(
    home: Home, server: ApiServer, journal: SqliteJournal, clock: Clock, storage: StorageOptions
) -> tuple[asyncio.Task[None], ...]:
    """Serve backups over HTTP, and start writing scheduled ones if ``--backup-dir`` is given; return that task."""
    backups = Backups(journal, clock, lambda: home.backed_up)
    server.add_pages(backups)
    if not storage.backup_dir:
        return ()
    run = backups.run(Path(storage.backup_dir), storage.backup_every_seconds, storage.backup_keep)
    return (asyncio.create_task(run),)


async def _create_queues(server: ApiServer) -> None:
    """Create the queues ``root`` and ``default`` before the server answers, as the first request may create a job.

    Existing queues are left alone: creating one would call the webhooks registered for queues, whose pods may not run
    yet.
    """
    await server.store.wait_durable()  # kinds are served once their definitions are durable
    cluster = LocalCluster(server, bootstrap.ADMIN)
    for queue in initial_queues():
        name = queue["metadata"]["name"]
        if server.state.latest(catalog.QUEUE, "", name) is None:
            try:
                await cluster.create(catalog.QUEUE, queue)
            except ApiError as error:
                _log.warning("queue %s is left to the scheduler: %s", name, error)


def kubeconfigs(home: Home) -> dict[Path, User]:
    """Return the path of each kubeconfig of a cluster and the user it authenticates."""
    files = {home.kubeconfig: bootstrap.ADMIN, home.path / "kubeconfig.view": bootstrap.VIEWER}
    files[home.path / "kubeconfig.node"] = bootstrap.node(node_name())
    return files | {home.path / f"kubeconfig.{user.name.rpartition(':')[2]}": user for user in COMPONENTS}


def purge(home: Home) -> None:
    """Delete all files the cluster made, its keys and kubeconfigs included; other files of its directory stay."""
    for folder in (home.data, home.node, home.pki):
        shutil.rmtree(folder, ignore_errors=True)
    home.clear_run_files()
    for file in (*kubeconfigs(home), home.tokens, *logs_of(home.log), home.lock):
        file.unlink(missing_ok=True)
    with suppress(OSError):  # holds other files, or does not exist
        home.path.rmdir()
