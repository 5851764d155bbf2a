"""The laptop world (a composition root): API server, controllers, scheduler and nodes on one machine.

- `options`: what ``strato up`` starts
- `parts`: controllers, scheduler and nodes, over any `Cluster`
- `companion`: the process that the parts run in where there are processors for two, and the server's hold on it
- `start`: begins both; `serve`: the API server's process, which announces and ends everything
"""
