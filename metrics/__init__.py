"""Pure metric kernels: arrays in, NamedTuples out."""
