"""What is raised for who is not there any more."""

__all__ = ["ClientGone"]


class ClientGone(Exception):
    """The client closed its connection before its answer was complete."""
