"""Tables: what ``kubectl get`` prints, computed by the server (``meta.k8s.io/v1`` Table).

Built-in kinds have their columns in code (`workloads`, `pods`, `extensions`, `others`), custom resources from
``additionalPrinterColumns``; a kind with neither shows name and age.
"""

from strato.server.tables.render import Renderer, render

__all__ = ["Renderer", "render"]
