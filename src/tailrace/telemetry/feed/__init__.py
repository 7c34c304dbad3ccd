"""The live picture of a server that its console shows: made while somebody looks."""
