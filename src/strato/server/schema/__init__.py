"""Check objects against their schema: built-in kinds by shapes, custom resources by structural schemas."""
