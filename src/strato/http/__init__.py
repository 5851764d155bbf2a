"""Room `http`: both halves of HTTP/1.1, for the API server and its client and for every other port and call.

Knows nothing of Kubernetes but the form of a request and of an answer (`strato.api.wire`).

- `parser`, `headers`: requests out of bytes, and what is refused on the way; header sections of responses
- `server`, `streaming`: a client's connection, answers in order and streams at their reader's pace
- `listen`, `plain`: the port, and a service of one function for it; `tls`: certificates of both halves
- `client`, `pool`: a connection to a server, and several of them used again; `fetch`: one request to anybody
"""
