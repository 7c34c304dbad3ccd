"""The wire format of OpenAI's responses, as far as nothing is stored. No socket and no event loop in here."""
