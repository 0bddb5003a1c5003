"""The process in which training runs on the local device: `python -m daf.tools.child`.

A process of its own, with the native module and nothing else, so that its memory is that of the training. The run
request comes on standard input, trace lines go to standard output, an error message to standard error.
"""

from __future__ import annotations

import signal
import sys

from daf.errors import Exit, UserError


def main() -> int:
    stop_requested = False

    def stop(*_: object) -> None:
        nonlocal stop_requested
        stop_requested = True

    def send(line: str) -> None:
        try:
            sys.stdout.write(line.rstrip("\n") + "\n")
            sys.stdout.flush()
        except BrokenPipeError:  # the parent is gone: nobody would stop us
            stop()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by the parent until we can handle it

    request = sys.stdin.read()
    try:
        from daf.native import DafError, run
    except UserError as error:
        return fail(error, error.exit_code)
    try:
        run(request, send, lambda: stop_requested)
    except DafError as error:
        return fail(error, error.exit_code)
    return Exit.OK


def fail(error: Exception, exit_code: int) -> int:
    print(error, file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
