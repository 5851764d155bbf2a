"""The laptop world (a composition root): API server, controllers, scheduler and nodes on one machine.

- `options`: what ``strato up`` starts
- `components`: controllers, scheduler and nodes, over any `Cluster`
- `companion`: the second process, in which the components run if the machine has two processors, and the server's
  handle of it
- `background`: starts a cluster detached, once even if several commands ask for it; `stopping`: ends it
- `start`: begins both processes; `serve`: the API server's process, which announces and ends everything
"""
