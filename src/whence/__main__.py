"""`python -m whence` is the same as `whence`."""

from whence.cli import main

if __name__ == "__main__":
    main()
