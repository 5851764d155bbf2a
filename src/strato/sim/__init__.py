"""The simulator: traces through the real server, controllers and scheduler under a virtual clock.

`run.simulate` is the door; `traces` and `nodes` read its inputs, `measure` and `report` make its output, `world` puts
server, controllers, scheduler and hollow nodes together (the test harness uses it too).
"""
