"""Pure sampling loops over a logits function."""
