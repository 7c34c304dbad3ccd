"""HTTP/2 with prior knowledge: a connection that begins with the preface, and its streams as ASGI requests."""

from tailrace.frontends.http.http2.connection import PREFACE, Http2Connection

__all__ = ["PREFACE", "Http2Connection"]
