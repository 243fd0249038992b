"""Banks of samples: read, written, imported, with their histories."""
