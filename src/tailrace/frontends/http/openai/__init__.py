"""The OpenAI wire format: bodies to `Generation`s, deltas to JSON. No socket and no event loop in here."""
