"""The admission chain: mutates and validates writes between defaulting and storing, in process or behind a webhook."""

from strato.admission.chain import Chain, ChainOptions
from strato.admission.request import AdmissionReader, AdmissionRequest, Denied, Dependencies, Operation

__all__ = ["AdmissionReader", "AdmissionRequest", "Chain", "ChainOptions", "Denied", "Dependencies", "Operation"]
