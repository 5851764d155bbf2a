"""Object types, quantities, selectors; CRDs, defaults and validation: data and pure functions, no I/O.

- `meta`, `shapes`, `core`, `apps`, … `volcano`: partial typed views; `kinds`, `catalog`: the kinds that are served
- `quantity`, `selectors`, `names`, `pods`: Kubernetes' rules for amounts, selectors, names and requests, exactly
- `defaults`, `validation`, `crds`: what an API server does with objects before it stores them
- `status`, `wire`: errors as `Status`, requests and responses without a transport
"""
