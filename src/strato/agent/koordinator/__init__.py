"""The rules by which Koordinator's agent suppresses, bursts and evicts, as alternatives to Strato's."""
