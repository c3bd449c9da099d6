"""Every error the project raises on purpose.

A message says what was given, what is allowed, and which option or act changes it, in one line.
`FixedCapacityError` is the common base: a command line that catches it has caught them all. Errors
caused by an argument are `ValueError`s too, so that callers need not know this module.
"""

# ruff: noqa: N818 - the names say what happened; the base class ends in Error

from __future__ import annotations

from collections.abc import Sequence

from runtime_shims.contract.formatting import one_line


class FixedCapacityError(Exception):
    """Base of all errors raised on purpose by this project."""


class UserInputError(FixedCapacityError, ValueError):
    """An argument is wrong; nothing was changed."""


class UnsupportedSetting(FixedCapacityError, ValueError):
    """A model, recipe or request asks for something that is not supported."""


class CapacityExceeded(FixedCapacityError):
    """More tokens than the caches or the step can take; nothing was written."""


class RollbackTooDeep(FixedCapacityError):
    """A rollback would need cache slots that later tokens have overwritten; nothing was changed."""


class OutOfMemory(FixedCapacityError):
    """This machine cannot give the memory that was asked for; nothing was kept."""


class BundleError(FixedCapacityError):
    """A bundle cannot be used. `faults` holds every fault found, one text each."""

    def __init__(self, where: str, faults: Sequence[str], advice: str) -> None:
        """`where` names the bundle or file, `advice` says what to do about all the faults."""
        super().__init__(where, tuple(faults), advice)
        self.where = where
        self.faults = tuple(faults)
        self.advice = advice

    def __str__(self) -> str:
        """One line for one fault; a heading and one line each for several."""
        where = one_line(self.where)
        if len(self.faults) == 1:
            return f"{where}: {self.faults[0]}; {self.advice}"
        listed = "".join(f"\n  {fault}" for fault in self.faults)
        return f"{where}: {len(self.faults)} faults; {self.advice}{listed}"


class BundleMissing(BundleError):
    """There is no bundle at the given path."""


class BundleCorrupt(BundleError):
    """A file that the manifest lists is absent, changed, or outside the bundle."""


class ManifestInvalid(BundleError):
    """The manifest is not JSON, does not have the expected keys and types, or contradicts itself."""


class FormatTooNew(BundleError):
    """The bundle was written by a newer version of this project."""
