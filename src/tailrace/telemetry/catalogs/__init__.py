"""The parts of the table of all metrics: a file for each of its groups, and no values."""
