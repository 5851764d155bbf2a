"""Back ends for workflow engines, which run their tasks as Volcano Jobs.

`taskjob` is pure: it builds the job of a task, and derives the task's outcome from the job. `jobrunner` creates,
watches and deletes jobs; it has its own event loop, since engines wait in threads. `miniwdl` is miniwdl's container
back end, the only module that imports an engine.
"""
