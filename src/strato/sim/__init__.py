"""The simulator: traces through the real server, controllers and scheduler under a virtual clock.

`run.simulate` is the entry point; `traces` and `nodes` read its inputs, `measure` and `report` make its output,
`cluster` builds server, controllers, scheduler and hollow nodes (the test harness uses it too).
"""
