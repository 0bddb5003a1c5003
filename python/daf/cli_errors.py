"""The one place where errors become a message and an exit code, for every command."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from daf.errors import Exit, UserError


def run_command(command: click.Command) -> NoReturn:
    """Runs a click command on sys.argv and exits. Only bugs in this project give a traceback."""
    sys.exit(_exit_code(command))


def _exit_code(command: click.Command) -> int:
    try:
        # Not standalone: click hands us its errors, and the code given to ctx.exit().
        result = command.main(standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else Exit.OK
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _report("interrupted", Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output is gone (`daf ... | head`); Python would complain about it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.CHECK_FAILED
    except MemoryError:
        return _report("out of memory; use a smaller model or batch, or close other programs", Exit.DEVICE)
    except UserError as error:
        return _report(str(error), error.exit_code)
    except RuntimeError as error:
        native = sys.modules.get("daf._native")  # heavy: whoever raised its error has imported it
        if native is None or not isinstance(error, native.DafError):
            raise
        return _report(str(error), error.exit_code)


def _report(message: str, exit_code: int) -> int:
    click.echo(f"error: {message}", err=True)
    return exit_code
