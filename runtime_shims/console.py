"""Runs a typer application with this project's manners: errors are one line, tracebacks are asked for.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import io
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from runtime_shims.contract.errors import FixedCapacityError
from runtime_shims.contract.formatting import one_line
from runtime_shims.contract.out_of_memory import is_out_of_memory
from runtime_shims.start import INTERRUPTED

USAGE = 2
FAILURE = 1
DEBUG_OPTION = "--debug"


class WrongValue(Exception):
    """A value that an option does not take. No ValueError: typer would put that into words of its own."""


def run_app(app: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run `app` on `arguments` (default: those of the process) and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:  # the shell closed it
        advice = "leave it open, or send it to a file or to /dev/null"
        print(f"{name}: standard output is closed; {advice}", file=sys.stderr)
        return FAILURE
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file name need not be UTF-8; printing it must not fail
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _termination_as_interrupt():
            result = app(args=given or ["--help"], prog_name=name, standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        if DEBUG_OPTION in given:
            traceback.print_exc()
        code, message = _outcome(error)
        print(f"{name}: {message}", file=sys.stderr)
        return code
    if result == INTERRUPTED:  # typer turns an interrupt into this code without a word
        print(f"{name}: interrupted", file=sys.stderr)
    if not given:
        return USAGE
    return result if isinstance(result, int) else 0


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """A request to terminate cleans up as Ctrl-C does, instead of leaving half-written files behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) or signal.SIG_DFL
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _outcome(error: BaseException) -> tuple[int, str]:
    """Exit code and message of an error that ended a command."""
    if isinstance(error, WrongValue):
        return USAGE, str(error)
    if isinstance(error, typer.TyperException):
        return error.exit_code, f"{_sentence(error.format_message())} (see --help)"
    if isinstance(error, typer.Abort | KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(error, FixedCapacityError):
        return (USAGE if isinstance(error, ValueError) else FAILURE), str(error)
    if isinstance(error, OSError) and not is_out_of_memory(error):
        return FAILURE, f"{error.strerror or error}{f': {one_line(str(error.filename))}' if error.filename else ''}"
    if is_out_of_memory(error):
        return FAILURE, "this machine has not enough memory; lower the limits, or use a machine with more"
    reason = next(iter(str(error).strip().splitlines()), "")
    kind = type(error).__name__
    return FAILURE, f"unexpected {kind}: {reason or 'no message'} ({DEBUG_OPTION} shows where)"


def _sentence(message: str) -> str:
    """A parser's message on one line, without its full stop."""
    return " ".join(message.split()).removesuffix(".")
