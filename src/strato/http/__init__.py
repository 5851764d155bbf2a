"""Room `http`: the server's and the client's half of HTTP/1.1, for every port we serve and every call we make.

The room knows nothing of Kubernetes but the types of a request and a response (`strato.api.wire`).

- `parser`, `headers`: parse requests and refuse malformed or oversized ones; make the header sections of responses
- `server`, `streaming`: a connection of a client: responses in order, and streams no faster than the client reads
- `listen`, `plain`: open a port, and a service of one function for it; `tls`: certificates of servers and clients
- `client`, `pool`: a connection to a server, and a pool that reuses them; `fetch`: one request to any URL
"""
