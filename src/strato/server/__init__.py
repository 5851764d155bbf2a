"""The embedded Kubernetes API: a plain function from request to response over a store.

- `store`, `journal`: objects in memory with one global revision and watch events; durable by group commit
- `registry`, `crd`: the kinds served; `bodies`, `fields`, `patch`, `protobuf`, `schema`: decode, select, change, check
- `api`, `rest`: routing and the verbs; `logs`, `streams`: interfaces to whatever runs the pods
- `discovery`, `openapi`, `tables`: answers that kubectl needs; `auth`: authentication and authorization
- `http`: the service that `strato.http` calls with requests
- `embedded`: composes a server of all these
"""
