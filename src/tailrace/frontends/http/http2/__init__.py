"""HTTP/2 with prior knowledge: a connection that begins with the preface, and its streams as ASGI requests."""

__all__ = ["PREFACE"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
