"""For all tests: no example is failed for being slow, which on a busy machine says nothing of the code.

NumPy computes on one thread, as in the server: its idle threads spin, and take the cores from whoever has work.
"""

import os

from hypothesis import settings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before any test loads it
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
