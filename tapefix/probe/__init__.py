"""Runs in the user's interpreter and records gradients: standard library only, Python 3.8 and newer."""
