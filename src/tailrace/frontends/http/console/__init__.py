"""The console: a page that the server gives, and the live picture that it shows."""
