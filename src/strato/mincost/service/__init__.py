"""The gRPC service ``firmament.FirmamentScheduler``: an unmodified Poseidon schedules through it.

`messages` describes the wire, `codec` reads and writes it, `scheduler` answers requests on a
`FlowScheduler`, `server` listens (needs the package ``grpcio``, imported only there).
"""
