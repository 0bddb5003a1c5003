"""The one error type that a user sees, and the exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    MODEL = 3
    UNSUPPORTED = 4
    PROGRAM = 5
    DATA = 6
    WEIGHTS = 7
    OUTPUT = 8
    DEVICE = 9
    INTERRUPTED = 130


class UserError(Exception):
    """An error the user can act on: the message names the action, the object and the next step."""

    def __init__(self, message: str, exit_code: Exit = Exit.CHECK_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
