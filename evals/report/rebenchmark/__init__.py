"""Tables and figures of the rebenchmark experiments."""
