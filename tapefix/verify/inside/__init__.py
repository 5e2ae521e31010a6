"""What runs outside the tool's own process: standard library only, Python 3.8 and newer, no import of tapefix."""
