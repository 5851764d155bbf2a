"""The chain as an HTTPS webhook of a real cluster: answers reviews, renews certificates, publishes configurations."""

from strato.admission.webhook.certificates import Certificates, FileCertificates, SecretCertificates
from strato.admission.webhook.configuration import Hooks, WebhookEndpoint, configurations
from strato.admission.webhook.groupsfile import GroupsFile
from strato.admission.webhook.server import WebhookOptions, WebhookServer
from strato.admission.webhook.services import SERVICES, WebhookService, parse_enabled

__all__ = [
    "SERVICES",
    "Certificates",
    "FileCertificates",
    "GroupsFile",
    "Hooks",
    "SecretCertificates",
    "WebhookEndpoint",
    "WebhookOptions",
    "WebhookServer",
    "WebhookService",
    "configurations",
    "parse_enabled",
]
