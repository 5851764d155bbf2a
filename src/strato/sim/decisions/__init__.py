"""The fidelity of decisions only: a trace through the scheduler's own cycle, on its own world, without API objects.

`run.simulate_decisions` is the door. `beginning` makes the world, `templates` what jobs look like to the scheduler,
`engine` passes time and carries out what each cycle decides, `lives` is what becomes of a job. Whatever bears on a
decision is done by the functions that do it in a cluster: admission, the job controller's rules, the cycle itself.
tests/sim/decisions compares the outcome with that of the fidelity with every object (`strato.sim.run`).
"""
