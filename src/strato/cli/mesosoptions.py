"""Options of the Mesos master: Mesos' own flags, and how its tasks become pods."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from strato.cli.connect import home_of
from strato.cli.optiongroups import option_group
from strato.errors import UsageError, one_line

if TYPE_CHECKING:
    from strato.interop.mesos.cluster.run import MesosSettings
    from strato.interop.mesos.endpoints.certificate import CertificateFiles
    from strato.interop.mesos.master.state import MasterOptions

PORT = 5050
_ANY = ("0.0.0.0", "::", "")
"""Listen addresses that mean every address of the machine."""
_UNITS = {"ms": 0.001, "secs": 1.0, "mins": 60.0, "hrs": 3600.0, "days": 86400.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|secs|mins|hrs|days|s|m|h)")


class _DurationType(click.ParamType[float]):
    """A duration in Mesos' form, ``30secs``, or Go's, ``30s``; gives seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the text."""
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no duration; write for example 30secs or 5mins", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


class _RangeType(click.ParamType[str]):
    name = "first-last"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        found = re.fullmatch(r"(\d{1,5})-(\d{1,5})", value)
        if found is None or not 0 < int(found[1]) <= int(found[2]) < 65536:
            self.fail(f"{value!r} is no range of ports; write for example 31000-32000", param, ctx)
        return value


class MesosOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``strato run mesos`` and ``strato up --mesos``."""

    ip: str = "127.0.0.1"
    port: int = PORT
    advertise: str = ""
    """Address told to frameworks; empty is the listen address, or this machine's name if that is every address."""
    tasks_namespace: str = "mesos"
    image: str = "busybox"
    ports: str = "31000-32000"
    gpu: str = "nvidia.com/gpu"
    offer_timeout: float | None = None
    allocation_interval: float = 1.0
    roles: str = ""
    root_submissions: bool = True
    filter_gpu_resources: bool = True
    min_allocatable: str = "cpus:0.01|mem:32"
    fair_sharing_excluded: str = ""
    credentials: str = ""
    """File with the frameworks' credentials."""
    tls: bool = False
    """Whether the port speaks TLS, with a certificate of Strato's own authority."""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    """Files of a certificate that the user renews; naming them turns TLS on too."""
    pki: str = ""
    """Folder of Strato's own authority."""

    def check(self, prefix: str = "--") -> None:
        """Check the options.

        Args:
            prefix: Of the options' names, for messages.

        Raises:
            UsageError: An option is wrong.
        """
        from strato.interop.mesos.resourcetext import parse
        from strato.interop.mesos.roles import parse_list

        try:
            parse_list(self.roles)
        except ValueError as error:
            raise UsageError(f"{prefix}roles {self.roles!r}: {error}") from error
        try:
            for part in self.min_allocatable.split("|"):
                parse(part)
        except ValueError as error:
            raise UsageError(f"{prefix}min-allocatable-resources {self.min_allocatable!r}: {error}") from error
        if not self.allocation_interval > 0:
            raise UsageError(f"{prefix}allocation-interval {self.allocation_interval:g}secs: must be more than 0")
        read_credentials(self.credentials, prefix)
        self._check_certificate(prefix)

    def _check_certificate(self, prefix: str) -> None:
        files = self.tls_cert_file, self.tls_private_key_file
        if any(files) and not all(files):
            raise UsageError(f"{prefix}tls-cert-file and {prefix}tls-private-key-file go together: give both or none")
        if all(files):
            from strato.interop.mesos.endpoints.certificate import CertificateFiles

            try:
                CertificateFiles(Path(files[0]), Path(files[1])).context()
            except OSError as error:
                raise UsageError(
                    f"{prefix}tls-cert-file {files[0]!r}, {prefix}tls-private-key-file {files[1]!r}: cannot be used: "
                    f"{one_line(error)}; give PEM files that belong together"
                ) from error

    def _certificate(self, advertise: str) -> CertificateFiles | None:
        """Return the files of the port's certificate, issued by Strato's own authority unless the user names some."""
        from strato.interop.mesos.endpoints.certificate import CertificateFiles

        if self.tls_cert_file:
            return CertificateFiles(Path(self.tls_cert_file), Path(self.tls_private_key_file))
        if not self.tls:
            return None
        from strato.clock import SystemClock
        from strato.server.auth.ca import CertificateAuthority

        names = dict.fromkeys((advertise, socket.gethostname(), *(() if self.ip in _ANY else (self.ip,))))
        authority = CertificateAuthority(Path(self.pki), SystemClock())
        return CertificateFiles(*authority.server_files(tuple(names), stem="mesos"))

    def settings(self) -> MesosSettings:
        """Return the settings of the master's edge."""
        from strato.interop.mesos.cluster.nodes import Dimensions
        from strato.interop.mesos.cluster.run import MesosSettings

        first, _, last = self.ports.partition("-")
        advertise = self.advertise or _own_address(self.ip)
        return MesosSettings(
            host="" if self.ip in _ANY else self.ip,
            port=self.port,
            advertise=advertise,
            namespace=self.tasks_namespace,
            image=self.image,
            dimensions=Dimensions(gpu=self.gpu, ports=(int(first), int(last))),
            credentials=read_credentials(self.credentials),
            tls=self._certificate(advertise),
        )

    def options(self) -> MasterOptions:
        """Return the master's own options."""
        from strato.interop.mesos.master.state import MasterOptions
        from strato.interop.mesos.roles import parse_list

        return MasterOptions(
            allocation_interval_seconds=self.allocation_interval,
            offer_timeout_seconds=self.offer_timeout,
            roles=frozenset(parse_list(self.roles)),
            root_submissions=self.root_submissions,
            filter_gpu_resources=self.filter_gpu_resources,
            min_allocatable_resources=tuple(part for part in self.min_allocatable.split("|") if part),
            fair_sharing_excluded=frozenset(part for part in self.fair_sharing_excluded.split(",") if part),
        )


def _own_address(ip: str) -> str:
    """Return the address by which others reach the one that is listened on."""
    if ip not in _ANY:
        return ip
    from strato.node.sandbox.network import machine_address

    return machine_address()


class _Credential(msgspec.Struct):
    principal: str
    secret: str = ""


class _Credentials(msgspec.Struct):
    credentials: list[_Credential] = []


def read_credentials(path: str, prefix: str = "--") -> Mapping[str, str]:
    """Return secrets by principal of a credentials file: Mesos' JSON, or a principal and a secret a line.

    Raises:
        UsageError: The file cannot be read.
    """
    if not path:
        return {}
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{prefix}credentials {path!r}: {one_line(error)}") from error
    if text.lstrip().startswith("{"):
        try:
            found = msgspec.json.decode(text, type=_Credentials)
        except (msgspec.MsgspecError, RecursionError) as error:
            why = "is nested too deeply" if isinstance(error, RecursionError) else one_line(error)
            raise UsageError(f"{prefix}credentials {path!r}: {why}") from error
        return {each.principal: each.secret for each in found.credentials}
    lines = [line.split() for line in text.splitlines() if line.strip()]
    wrong = [number for number, line in enumerate(lines, start=1) if len(line) != 2]
    if wrong:
        raise UsageError(
            f"{prefix}credentials {path!r}: line {wrong[0]}: write a principal and a secret, with a space between"
        )
    return {line[0]: line[1] for line in lines}


_MASTER_OPTIONS = (
    click.option("--offer-timeout", default=None, type=_DurationType(), metavar="DURATION",
                 help="Rescind offers that are not answered for so long, for example 30secs; without it never."),
    click.option("--allocation-interval", default="1secs", show_default=True, type=_DurationType(), metavar="DURATION",
                 help="Time between batch allocations."),
    click.option("--roles", default="", metavar="ROLE,…", help="The only roles there are; without it any."),
    click.option("--root-submissions/--no-root-submissions", default=True, show_default=True,
                 help="Frameworks may have user root."),
    click.option("--filter-gpu-resources/--no-filter-gpu-resources", default=True, show_default=True,
                 help="Hide agents with GPUs from frameworks without GPU_RESOURCES."),
    click.option("--min-allocatable-resources", "min_allocatable", default="cpus:0.01|mem:32", show_default=True,
                 help="The least that is offered: alternatives with | between."),
    click.option("--fair-sharing-excluded-resource-names", "fair_sharing_excluded", default="", metavar="NAME,…",
                 help="Scalars that shares do not count."),
    click.option("--credentials", default="", metavar="FILE",
                 help="Principals and their secrets; all others are refused."),
    click.option("--tls", is_flag=True,
                 help="Speak TLS, with a certificate of our own authority (pki/ca.crt of strato's --home)."),
    click.option("--tls-cert-file", default="", metavar="FILE",
                 help="Speak TLS with this certificate; it is loaded again when it changes."),
    click.option("--tls-private-key-file", default="", metavar="FILE", help="Its key."),
    click.option("--tasks-namespace", default="mesos", show_default=True, help="Of the pods of tasks."),
    click.option("--image", default="busybox", show_default=True, help="Of tasks that name none."),
    click.option("--ports", default="31000-32000", show_default=True, type=_RangeType(), help="Ports of each agent."),
    click.option("--gpu-resource", "gpu", default="nvidia.com/gpu", show_default=True,
                 help="The extended resource that 'gpus' are."),
)  # fmt: skip
_ADDRESS_OPTIONS = (
    click.option("--ip", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 is every one."),
    click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0 picks a free one."),
    click.option("--advertise", default="", metavar="HOST",
                 help="Name or address at which frameworks and executors reach it, instead of --ip."),
)  # fmt: skip
mesos_options = option_group("mesos", MesosOptions, (*_ADDRESS_OPTIONS, *_MASTER_OPTIONS))


def _embedded(
    *,
    on: bool,
    port_of_mesos: int,
    offer_timeout: float | None,
    credentials: str,
    roles: str,
    mesos_tls: bool,
    mesos_certificate: str,
    mesos_key: str,
) -> MesosOptions | None:
    from strato.node.images.store import HOST_IMAGE

    if not on:
        return None
    options = MesosOptions(
        port=port_of_mesos,
        image=HOST_IMAGE,
        offer_timeout=offer_timeout,
        credentials=_absolute(credentials),
        roles=roles,
        tls=mesos_tls,
        tls_cert_file=_absolute(mesos_certificate),
        tls_private_key_file=_absolute(mesos_key),
        pki=str(home_of(click.get_current_context()).pki),
    )
    options.check("--mesos-")
    return options


def _absolute(path: str) -> str:
    return str(Path(path).absolute()) if path else ""


embedded_mesos_options = option_group(
    "mesos",
    _embedded,
    (
        click.option("--mesos", "on", is_flag=True, help="A Mesos master as well: frameworks get offers of the nodes."),
        click.option("--mesos-port", "port_of_mesos", default=PORT, show_default=True, metavar="PORT",
                     type=click.IntRange(0, 65535), help="Its port, at the same address; 0 picks a free one."),
        click.option("--mesos-offer-timeout", "offer_timeout", default=None, type=_DurationType(), metavar="DURATION",
                     help="Rescind offers that are not answered for so long, for example 30secs; without it never."),
        click.option("--mesos-credentials", "credentials", default="", metavar="FILE",
                     help="Principals and their secrets; all others are refused."),
        click.option("--mesos-tls", "mesos_tls", is_flag=True,
                     help="Its port speaks TLS, with a certificate of the cluster's authority."),
        click.option("--mesos-tls-cert-file", "mesos_certificate", default="", metavar="FILE",
                     help="Its port speaks TLS with this certificate; it is loaded again when it changes."),
        click.option("--mesos-tls-private-key-file", "mesos_key", default="", metavar="FILE", help="Its key."),
        click.option("--mesos-roles", "roles", default="", metavar="ROLE,…",
                     help="The only roles there are; without it any."),
    ),
)  # fmt: skip
"""Adds what ``strato up`` asks about the Mesos master beside the cluster."""
