"""A run's folder: its plan, the two stages that fill it, its event log, its scores read back."""
