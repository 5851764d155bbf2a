"""The scheduler's engine on copies of a state: dry runs, explanations of why a job waits, changes that start it."""
