"""Benchmark suites for launch/bench.py, one module each: `run(repeats, small) -> list[Row]`."""
