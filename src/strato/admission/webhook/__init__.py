"""The chain as an HTTPS webhook of a real cluster: answers reviews, renews certificates, publishes configurations."""

from strato.admission.webhook.certificates import Certificates, FileCertificates, SecretCertificates
from strato.admission.webhook.configuration import Endpoint, Hooks, configurations
from strato.admission.webhook.groupsfile import GroupsFile
from strato.admission.webhook.server import WebhookOptions, WebhookServer
from strato.admission.webhook.services import SERVICES, Service, parse_enabled

__all__ = [
    "SERVICES",
    "Certificates",
    "Endpoint",
    "FileCertificates",
    "GroupsFile",
    "Hooks",
    "SecretCertificates",
    "Service",
    "WebhookOptions",
    "WebhookServer",
    "configurations",
    "parse_enabled",
]
