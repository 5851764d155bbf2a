"""Workflow engines that run their tasks as jobs of this system.

`taskjob` is pure: the job of a task, and what the state of that job says of the task. `jobrunner` creates, watches and
deletes; engines wait in threads, so it has an event loop of its own. `miniwdl` is the engine's container back end, and
the only module that imports an engine.
"""
