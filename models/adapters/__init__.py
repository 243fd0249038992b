"""One adapter per published family of checkpoints."""
