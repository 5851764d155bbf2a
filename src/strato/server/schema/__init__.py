"""What an object may look like: built-in types from their shapes, custom resources from structural schemas."""
