"""Where a model's files are: a directory, a `.gguf` file, a Hub repository, or a published geometry.

Only this file asks the network, and only to find out whether a Hub id exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.spec.faults import ModelSourceError
from recipes.geometries.index import ASSISTANTS, GEOMETRIES, HUB_IDS

HUB_TIMEOUT_SECONDS = 5.0
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class ModelLocation:
    """Where to read from.

    Attributes:
        name: what to call the model: its Hub id, or its directory's or file's name.
        path: directory or Hub id; None for a geometry.
        gguf_file: file name inside `path`.
        geometry: the published config values; None when files hold them.
        revision: commit of the Hub repository.
    """

    name: str
    path: str | None = None
    gguf_file: str | None = None
    geometry: dict[str, Any] | None = None
    revision: str | None = None


def locate(model: str, *, random_weights: bool) -> ModelLocation:
    """Find `model`; local files win over names.

    Raises:
        ModelSourceError: there is no such file, directory, geometry or reachable Hub id.
    """
    path = Path(model).expanduser()
    if path.suffix.lower() == ".gguf":
        return _locate_gguf(model, path)
    if path.is_dir():
        return _locate_directory(model, path)
    if path.exists():
        raise ModelSourceError(model, ["it is a file; give a checkpoint directory or a .gguf file"])
    short_name = _short_name(model)
    published = GEOMETRIES.get(short_name) or ASSISTANTS.get(short_name)
    if random_weights and published is not None:
        return ModelLocation(HUB_IDS[short_name], geometry=published())
    if model.startswith(("/", "./", "../", "~")) or not _HUB_ID.fullmatch(model):
        raise ModelSourceError(model, ["there is no such file or directory"])
    return _locate_on_hub(model, HUB_IDS.get(short_name, model), random_weights)


def _short_name(model: str) -> str:
    """The geometry name for a Hub id or an alias in any case; otherwise `model` itself."""
    by_id = {hub_id.lower(): name for name, hub_id in HUB_IDS.items()}
    return by_id.get(model.lower(), model.lower())


def _locate_gguf(model: str, path: Path) -> ModelLocation:
    if not path.is_file():
        raise ModelSourceError(model, ["there is no such file"])
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelSourceError(model, ["it is not a GGUF file (wrong first bytes)"])
    return ModelLocation(path.name, path=str(path.parent), gguf_file=path.name)


def _locate_directory(model: str, path: Path) -> ModelLocation:
    if (path / "config.json").is_file():
        return ModelLocation(path.resolve().name, path=str(path))
    gguf_files = sorted(file.name for file in path.glob("*.gguf"))
    hint = f"; give one of its files, such as {gguf_files[0]}" if gguf_files else ""
    raise ModelSourceError(model, [f"the directory has no config.json{hint}"])


def _locate_on_hub(model: str, hub_id: str, random_weights: bool) -> ModelLocation:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        revision = HfApi().model_info(hub_id, timeout=HUB_TIMEOUT_SECONDS).sha
        return ModelLocation(hub_id, path=hub_id, revision=revision)
    except GatedRepoError as error:
        fault = f"access to {hub_id} must be granted on its Hub page; then log in with `hf auth login`"
        raise ModelSourceError(model, [fault]) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelSourceError(model, [f"the Hub has no model {hub_id}{_way_out(random_weights)}"]) from error
    except Exception as error:  # every network library has its own: all mean that the Hub was not reached
        cached = _cached_snapshot(hub_id)
        if cached is not None:
            return ModelLocation(hub_id, path=str(cached), revision=cached.name)
        fault = f"no network, or {hub_id} is unknown{_way_out(random_weights)}"
        raise ModelSourceError(model, [fault]) from error


def _cached_snapshot(hub_id: str) -> Path | None:
    """The snapshot directory of an earlier download, named by its commit."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(hub_id, "config.json")
    return Path(config).parent if isinstance(config, str) else None


def _way_out(random_weights: bool) -> str:
    if random_weights:
        return f"; geometries known without network: {', '.join(GEOMETRIES)}"
    return "; use a local directory or .gguf file, or --random-weights with a known name"
