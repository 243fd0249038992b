"""Drawing or importing texts: cells become banks, at a matched compute where asked."""
