"""A server of several processes: who they are, what they share, and what becomes of one that dies."""
