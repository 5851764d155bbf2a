"""The record of a simulated run in columns (`record`), its file (`storing`), and the measures computed from it."""
