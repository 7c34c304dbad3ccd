"""For all tests: no example is failed for being slow, which on a busy machine says nothing of the code."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
