"""Options of the Mesos master: Mesos' forms of durations, lists and credentials, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from strato.cli.mesosoptions import MesosOptions, read_credentials
from strato.cli.run.mesos import mesos
from strato.errors import UsageError


def test_options_become_settings() -> None:
    chosen = MesosOptions(
        ip="0.0.0.0", ports="100-200", roles="a,b/c", offer_timeout=30.0, min_allocatable="cpus:1|mem:64"
    )
    chosen.check()
    settings, options = chosen.settings(), chosen.options()
    assert (settings.host, settings.dimensions.ports) == ("", (100, 200))
    assert settings.advertise not in ("", "0.0.0.0")
    assert (options.roles, options.offer_timeout_seconds) == (frozenset(("a", "b/c")), 30.0)
    assert options.min_allocatable_resources == ("cpus:1", "mem:64")


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        (MesosOptions(roles="/a"), "--roles '/a': Role '/a' cannot start with a slash"),
        (MesosOptions(min_allocatable="cpus"), "--min-allocatable-resources 'cpus': "),
        (MesosOptions(allocation_interval=0.0), "--allocation-interval 0secs: must be more than 0"),
        (MesosOptions(credentials="/nonexistent"), "--credentials '/nonexistent': "),
        (MesosOptions(tls_cert_file="/x"), "--tls-cert-file and --tls-private-key-file go together: give both or none"),
        (MesosOptions(tls_cert_file="/x", tls_private_key_file="/y"),
         "--tls-cert-file '/x', --tls-private-key-file '/y': cannot be used: "),
    ],
)  # fmt: skip
def test_what_is_wrong_names_its_option(chosen: MesosOptions, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen.check()
    assert str(caught.value).startswith(text)
    assert "Errno" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"credentials": [{"principal": "p", "secret": "s"}]}', "p s\n\n", " p   s"])
def test_credentials_files_have_two_forms(tmp_path: Path, text: str) -> None:
    path = tmp_path / "credentials"
    path.write_text(text)
    assert read_credentials(str(path)) == {"p": "s"}


@pytest.mark.parametrize("text", ['{"credentials": 1}', "{", "only"])
def test_credentials_that_cannot_be_read_are_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "credentials"
    path.write_text(text)
    with pytest.raises(UsageError, match="--credentials"):
        read_credentials(str(path))


def test_our_own_authority_makes_the_certificate(tmp_path: Path) -> None:
    """Its name is that at which the master is reached; it is used again, and not the API server's."""
    chosen = MesosOptions(ip="10.1.2.3", tls=True, pki=str(tmp_path))
    files = chosen.settings().tls
    assert files is not None
    assert files.certificate == tmp_path / "mesos.crt"
    names = x509.load_pem_x509_certificate(files.certificate.read_bytes()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert "10.1.2.3" in map(str, names.value.get_values_for_type(x509.IPAddress))
    before = files.certificate.read_bytes()
    again = chosen.settings().tls
    assert again is not None
    assert again.certificate.read_bytes() == before
    files.context()
    assert MesosOptions().settings().tls is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--offer-timeout", "soon"], "is no duration; write for example 30secs or 5mins"),
        (["--ports", "5"], "is no range of ports; write for example 31000-32000"),
        (["--ports", "9-5"], "is no range of ports; write for example 31000-32000"),
    ],
)
def test_values_that_cannot_be_read(options: list[str], text: str) -> None:
    result = CliRunner().invoke(mesos, options, obj={"kubeconfig": None, "master": None})
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())
