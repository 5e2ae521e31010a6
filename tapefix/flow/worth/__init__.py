"""What of a program is worth running: told from its text, at a fraction of the cost of running it."""
