"""One error for all faults: a user who fixes a message should not meet the next one on the second run."""

from __future__ import annotations

from collections.abc import Sequence

from runtime_shims.contract.errors import FixedCapacityError, UserInputError


class ExportError(FixedCapacityError):
    """Why there is no bundle.

    `faults` holds one sentence fragment per fault; the message is a single line that joins them.
    """

    def __init__(self, subject: str, faults: Sequence[str]) -> None:
        self.subject = subject
        self.faults = tuple(faults)
        super().__init__(f"{subject}: {'; '.join(self.faults)}")


class SpecError(ExportError, UserInputError):
    """A recipe, model, plan or output that cannot be exported: the user asks for something else."""


class ExportFailed(ExportError):
    """An export that was allowed and broke off; nothing of it was kept."""


class RecipeError(SpecError):
    """A recipe whose values are wrong, or are not available in this version."""


class UnsupportedModelError(SpecError):
    """A model whose config lacks facts or asks for something the exporter does not build."""


class ModelSourceError(SpecError):
    """A model that cannot be found, read or loaded completely."""


class PlanError(SpecError):
    """Limits that the model or the memory budget does not allow."""


def raise_if_any(error: type[ExportError], subject: str, faults: Sequence[str]) -> None:
    """Raise `error` with every fault, or return when there is none."""
    if faults:
        raise error(subject, faults)


def one_line(error: BaseException, longest: int = 300) -> str:
    """The message of a library's error on one line of at most `longest` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= longest else text[: longest - 3] + "..."
