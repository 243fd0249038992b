"""Networks, weights and tokenizers behind pure functions of params."""
