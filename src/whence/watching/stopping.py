"""The exception that ends the program at a finding, with `--stop-on`."""


class Stop(BaseException):
    """Ends the program; no `except Exception` catches it."""
