"""The embedded Kubernetes API: a plain function from request to response over a store.

- `store`, `journal`: objects in memory, one revision, events; durable by group commit
- `registry`, `crd`: what is served; `objects`, `fields`, `patch`, `protobuf`, `schema`: bodies in, bodies out
- `api`, `rest`, `watching`: routing and the verbs; `logs`: where pod logs come from
- `discovery`, `openapi`, `tables`: what kubectl asks for; `auth`: who may do what
- `http`: the service that answers over HTTP (`strato.http`)
- `embedded`: the composition of all that
"""
