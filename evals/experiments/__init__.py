"""One module per experiment: `Config`, `cells(config)` and `report(scores)`."""
