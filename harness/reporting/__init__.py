"""Reports, made from events and nothing else: the log, the summary, the terminal."""
