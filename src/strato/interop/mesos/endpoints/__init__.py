"""The master's HTTP: the scheduler, executor and operator APIs and the old JSON pages.

- `certificate`: the port's certificate, loaded again when its files change
- `streams`: event streams; `negotiation`: content types
- `scheduler`, `executor`, `operator`, `agent`, `oldpages`, `files`: the endpoints
- `service`: routing of paths, redirects to the leader, authentication
"""
