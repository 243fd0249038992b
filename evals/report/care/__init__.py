"""Tables and figures of the CaRE experiments."""
