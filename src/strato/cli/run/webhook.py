"""``strato run webhook``: admission over HTTPS; makes its own certificates and webhook configurations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.admission.chain import ALL_WEBHOOKS
from strato.api.kinds import Kind
from strato.api.trainingkinds import kinds_off
from strato.cli.connect import connect
from strato.cli.goflags import GoCommand, switch
from strato.cli.monitoring import TlsFiles
from strato.cli.optiongroups import option_group
from strato.cli.run.common import DURATION, Common, RunningComponent, component_options, serve
from strato.cli.run.controlling import DEFAULT_NAMES
from strato.cli.run.tls import tls_options
from strato.cli.serving import make_random, run_loop
from strato.cli.training import kinds_option
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.client.namespaces import ensure_namespace
from strato.clock import Clock, SystemClock
from strato.errors import UsageError
from strato.metrics import Registry

if TYPE_CHECKING:
    from strato.admission.queueplacement import QueueLimits
    from strato.admission.webhook import WebhookServer
    from strato.interop.yarn.placing import FollowedPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFlags:
    """Options of the webhook (spec volcano-cli C4)."""

    port: int
    address: str
    enabled: str
    namespace: str
    service: str
    service_port: int
    url: str
    secret: str
    tls: TlsFiles | None
    """Certificate, key and authority that the user manages; None lets the webhook make its own."""
    admission_conf: Path | None
    queue_placement: Path | None
    """YARN's file with placement rules and limits on applications."""
    queue_user_key: str
    """Label or annotation that names a job's user, for these limits."""
    failure_policy: str
    excluded_namespaces: tuple[str, ...]
    check_allocated_pods: bool
    max_queue_depth: int
    protect_root_queue: bool
    graceful_seconds: float


def _webhook_flags(*, url: str, service: str, admission_conf: str, queue_placement: str, **others: Any) -> WebhookFlags:
    if not url and not service:
        raise UsageError(
            "say how the API server finds this webhook: --webhook-service-name NAME (in --webhook-namespace), "
            "or --webhook-url https://HOST:PORT"
        )
    if url and not url.startswith("https://"):
        raise UsageError(f"--webhook-url {url!r}: API servers call https:// addresses only")
    conf = Path(admission_conf) if admission_conf else None
    placement = Path(queue_placement) if queue_placement else None
    return WebhookFlags(url=url, service=service, admission_conf=conf, queue_placement=placement, **others)


_OPTIONS = (
    click.option("--port", default=8443, show_default=True, type=click.IntRange(1, 65535), help="HTTPS port."),
    click.option("--webhook-address", "address", default="", help="Address to serve HTTPS on; all of them without it."),
    click.option("--enabled-admission", "enabled", default=",".join(ALL_WEBHOOKS),
                 help="Services to offer."),
    click.option("--webhook-namespace", "namespace", default="volcano-system", show_default=True,
                 help="Of service and Secret."),
    click.option("--webhook-service-name", "service", default="", help="Service through which the API server calls."),
    click.option("--webhook-service-port", "service_port", default=443, show_default=True,
                 type=click.IntRange(1, 65535),
                 help="Its port."),
    click.option("--webhook-url", "url", default="", metavar="URL",
                 help="Address instead of a service: https://HOST:PORT."),
    click.option("--webhook-secret", "secret", default="volcano-admission-secret", show_default=True,
                 help="Certificates."),
    click.option("--admission-conf", default="", metavar="FILE", help="Resource groups of pods, followed."),
    click.option("--queue-placement", default="", metavar="FILE",
                 help="fair-scheduler.xml or capacity-scheduler.xml whose rules choose queues of new jobs and limit "
                      "their number, followed."),
    click.option("--queue-user-key", default="", metavar="KEY",
                 help="Label or annotation of jobs that names their user, for that file's limits; else the namespace."),
    click.option("--failure-policy", type=click.Choice(["Fail", "Ignore"]), default="Fail", show_default=True,
                 help="What happens to our own kinds while no webhook answers; pods always pass."),
    click.option("--exclude-namespace", "excluded_namespaces", multiple=True,
                 help="Namespace never asked about, beside kube-system."),
    switch("--enable-queue-allocated-pods-check", "check_allocated_pods", help="Keep queues that have pods."),
    click.option("--max-queue-depth", default=5, show_default=True, type=click.IntRange(1, 64),
                 help="Levels of queues."),
    switch("--enable-root-queue-protection", "protect_root_queue", default=True, show_default=True,
           help="Keep the root queue."),
    click.option("--graceful-shutdown-time", "graceful_seconds", type=DURATION, default="30s", show_default=True,
                 help="For open requests."),
)  # fmt: skip
webhook_options = option_group("webhook", _webhook_flags, _OPTIONS, inner={"tls": tls_options})
"""Adds the webhook's options to a command, which takes them as one `WebhookFlags`."""


def build_webhook(
    cluster: Cluster,
    clock: Clock,
    metrics: Registry,
    flags: WebhookFlags,
    names: tuple[str, ...],
    off: Collection[Kind] = (),
    groups_of: Informers | None = None,
) -> WebhookServer:
    """Build the webhook, without checks of the kinds in ``off``.

    PodGroups of ``groups_of`` count as applications, where a file limits these.

    Raises:
        InvalidInput: The admission configuration is wrong.
        UsageError: An enabled service does not exist.
    """
    from strato.admission import ChainOptions, queueplacement
    from strato.admission.webhook import (
        Certificates,
        FileCertificates,
        GroupsFile,
        Hooks,
        SecretCertificates,
        WebhookEndpoint,
        WebhookOptions,
        WebhookServer,
        parse_enabled,
    )

    endpoint = WebhookEndpoint(namespace=flags.namespace, service=flags.service, port=flags.service_port, url=flags.url)
    groups = GroupsFile(flags.admission_conf) if flags.admission_conf is not None else None
    placement = _placement(flags.queue_placement, clock)
    own_namespaces = ("kube-system", flags.namespace)
    chain = ChainOptions(
        scheduler_names=names,
        part_namespaces=own_namespaces,
        max_queue_depth=flags.max_queue_depth,
        protect_root_queue=flags.protect_root_queue,
        check_allocated_pods_on_delete=flags.check_allocated_pods,
        resource_groups=groups.first() if groups is not None else None,
        queue_placement=placement,
        queue_limits=_limits(placement, groups_of, clock, flags.queue_user_key),
    )
    hooks = Hooks(
        services=parse_enabled([flags.enabled, queueplacement.PATH if placement is not None else ""], off),
        scheduler_names=names,
        excluded_namespaces=(*own_namespaces, *flags.excluded_namespaces),
        part_namespaces=own_namespaces,
        failure_policy=flags.failure_policy,
        resource_groups=groups is not None,
    )
    certificates: Certificates
    if flags.tls is not None:
        certificates = FileCertificates(flags.tls.certificate, flags.tls.key, flags.tls.authority)
    else:
        certificates = SecretCertificates(
            cluster, clock, namespace=flags.namespace, name=flags.secret, hosts=endpoint.hosts
        )
    options = WebhookOptions(
        host=flags.address,
        port=flags.port,
        endpoint=endpoint,
        hooks=hooks,
        chain=chain,
        graceful_seconds=flags.graceful_seconds,
    )

    def reload() -> ChainOptions | None:
        if placement is not None:
            placement.refresh(clock.now())
        return groups.newer(chain) if groups is not None else None

    return WebhookServer(cluster, clock, certificates, options, metrics, reload_chain=reload)


def _placement(path: Path | None, clock: Clock) -> FollowedPlacement | None:
    """Return the placement rules of YARN's file.

    Raises:
        InvalidInput: The file cannot be read, or has no rules.
    """
    if path is None:
        return None
    from strato.interop.yarn.placing import FollowedPlacement

    rules = FollowedPlacement(path)
    rules.refresh(clock.now())
    return rules


def _limits(
    placement: FollowedPlacement | None, groups_of: Informers | None, clock: Clock, user_key: str
) -> QueueLimits | None:
    """Return the limits of YARN's file, where applications can be counted."""
    if placement is None or groups_of is None:
        return None
    from strato.api.volcano.scheduling import PodGroup
    from strato.interop.yarn.admitting import Applications, SubmissionLimits

    return SubmissionLimits(placement, Applications(groups_of.informer(PodGroup), clock, user_key))


def webhook_member(
    cluster: Cluster,
    clock: Clock,
    common: Common,
    metrics: Registry,
    flags: WebhookFlags,
    names: tuple[str, ...],
    off: Collection[Kind] = (),
) -> RunningComponent:
    """Return the webhook as a member of this process; without a lease, since every replica answers.

    Raises:
        InvalidInput: The admission configuration is wrong.
        UsageError: An enabled service does not exist.
    """
    groups_of = Informers(cluster, clock, make_random()) if flags.queue_placement is not None else None
    part = build_webhook(cluster, clock, metrics, flags, names, off, groups_of)

    async def work() -> None:
        await ensure_namespace(cluster, clock, flags.namespace, common.timing.retry_seconds)
        if groups_of is not None:
            await groups_of.wait_synced()  # limits need the count of all applications before the first is admitted
        try:
            await part.run()
        finally:
            if groups_of is not None:
                await groups_of.stop()

    return RunningComponent(name="webhook", work=work)


@click.command(cls=GoCommand)
@component_options(metrics_address=":8082")
@webhook_options
@kinds_option
@click.option("--scheduler-name", "names", multiple=True, help="Value of schedulerName; may be repeated.")
@click.pass_context
def webhook(ctx: click.Context, common: Common, webhook: WebhookFlags, kinds: str, names: tuple[str, ...]) -> None:
    """Run the admission webhook: it fills in and judges jobs, queues, pod groups and the rest.

    It makes its own certificates, keeps them in a Secret, renews them and writes them into the cluster's webhook
    configurations, which it creates when they are missing and its role allows that.
    """
    # Volcano's --listen-address is HTTPS' host without a port; Strato's is the metrics' address with one
    if common.metrics_address and not _has_port(common.metrics_address):
        webhook = replace(webhook, address=webhook.address or common.metrics_address)
        common = replace(common, metrics_address="")

    async def main() -> None:
        clock, metrics = SystemClock(), Registry()
        cluster = connect(ctx)
        member = webhook_member(cluster, clock, common, metrics, webhook, names or DEFAULT_NAMES, kinds_off(kinds))
        await serve(cluster, make_random(), common, [member], metrics)

    run_loop(main)


def _has_port(address: str) -> bool:
    """Whether an address is ``host:port`` and not a name or an IP address alone."""
    host, _, port = address.rpartition(":")
    return port.isdigit() and (":" not in host or host.endswith("]"))
