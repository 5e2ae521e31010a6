"""`python -m tapefix`."""

from tapefix.cli import main

if __name__ == "__main__":
    main()
