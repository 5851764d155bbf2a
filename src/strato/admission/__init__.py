"""The mutate/validate chain between defaulting and storing: pure, synchronous, in process or behind a webhook."""

from strato.admission.chain import Chain, ChainOptions
from strato.admission.request import AdmissionRequest, Denied, Dependencies, Operation, World

__all__ = ["AdmissionRequest", "Chain", "ChainOptions", "Denied", "Dependencies", "Operation", "World"]
