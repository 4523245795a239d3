"""How the program is ended at a finding, where the user asked for that with `--stop-on`."""


class Stop(BaseException):
    """Passes every `except Exception` of the program."""
