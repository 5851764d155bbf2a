"""The laptop world (a composition root): API server, controllers, scheduler and nodes on one machine.

- `options`: what ``strato up`` starts
- `components`: controllers, scheduler and nodes, over any `Cluster`
- `companion`: the process that they run in where there are two processors, and the server's handle of it
- `background`: one of several who want to starts it; `stopping`: ends it
- `start`: begins both processes; `serve`: the API server's process, which announces and ends everything
"""
