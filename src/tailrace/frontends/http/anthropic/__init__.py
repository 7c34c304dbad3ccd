"""The Anthropic wire format: messages to `Generation`s, deltas to named events. No socket and no event loop in here."""
