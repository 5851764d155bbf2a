"""Object types, quantities, selectors; CRDs, defaults and validation: data and pure functions, no I/O.

- `meta`, `shapes`, `core`, `apps`, … `volcano`: partial typed views; `kinds`, `catalog`: what there is to serve
- `quantity`, `selectors`, `names`, `pods`: the arithmetic of Kubernetes, exactly
- `defaults`, `validation`, `crds`: what an API server does with objects
- `status`, `wire`: errors as `Status`, requests and responses without a transport
"""
