"""One module a verb. Each is imported only when its verb is asked for."""
