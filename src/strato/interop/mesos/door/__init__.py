"""The master's HTTP: the scheduler, executor and operator APIs and the old JSON pages.

- `certificate`: of the port, loaded again when its files change
- `streams`: event streams; `negotiation`: types of bodies
- `scheduler`, `executor`, `operator`, `agent`, `oldpages`, `files`: the endpoints
- `service`: which path is whose, who leads, who may
"""
