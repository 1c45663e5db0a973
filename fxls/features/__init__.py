"""LSP features: pure functions from a snapshot and a position to an answer of the protocol."""
