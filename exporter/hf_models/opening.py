"""From what `from_pretrained` was given to a bundle that is ready to run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig, GenerationConfig, PretrainedConfig

from exporter.bundle.writer import CONFIG_NAME, GENERATION_CONFIG_NAME
from exporter.named_recipes import Chosen, chosen_recipe, said_of
from exporter.spec.faults import ModelSourceError, SpecError, one_line, raise_if_any
from exporter.spec.memory import parse_bytes
from exporter.spec.model_source import resolve_source
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.manifest import MANIFEST_NAME, ModelKind
from runtime_shims.reference.loading import open_session

if TYPE_CHECKING:
    from runtime_shims.reference.session import Session

CLASSES: dict[ModelKind, str] = {
    "decoder_only": "FixedCapacityModelForCausalLM",
    "text_seq2seq": "FixedCapacityModelForSeq2SeqLM",
    "speech_seq2seq": "FixedCapacityModelForSpeechSeq2Seq",
}
RUN = ("threads", "backend", "check_hashes")
HUB = ("revision", "token", "cache_dir", "local_files_only")
RECIPE = tuple(field.name for field in fields(Recipe) if field.name != "model")
EXPORT = ("recipe", "device", *RECIPE, "greedy", "max_memory", "verify", "output", "force")


class LoadError(SpecError):
    """Options of `from_pretrained` that do not exist, or a bundle that is not what it is opened as."""


@dataclass(frozen=True)
class OpenBundle:
    """A bundle of which a program is loaded; `temporary` holds it where it was exported to no place of its own."""

    name: str
    bundle: Bundle
    session: Session
    config: PretrainedConfig
    generation_config: GenerationConfig
    temporary: TemporaryDirectory[str] | None


def open_bundle(model: str | os.PathLike[str], kind: ModelKind, options: Mapping[str, Any]) -> OpenBundle:
    """Find, download or export the bundle, and load its program.

    Raises:
        SpecError: a wrong option, a bundle of another kind, or a model that cannot be exported.
        BundleError: there is no bundle, or it is damaged.
    """
    given = dict(options)
    is_export = bool(given.pop("export", False))
    _check_options(given, is_export)
    temporary = None
    if is_export:
        chosen = _chosen(str(model), given)
        _require_kind(str(model), ModelSpec.from_config(resolve_source(chosen.recipe).load_config()).kind, kind)
        if given.get("output") is None:
            temporary = TemporaryDirectory(prefix="fixed-capacity-")
        path = _export(chosen, given, temporary)
    else:
        path = Path(model) if Path(model).exists() else _download(str(model), given)
        _require_bundle(path)
    bundle = read_bundle(path, check_hashes=not is_export and given.get("check_hashes", True))
    _require_kind(str(model), bundle.manifest.kind, kind)
    config, generation_config = _configs(bundle)
    session = open_session(bundle, given.get("backend"), given.get("threads"))
    return OpenBundle(str(model), bundle, session, config, generation_config, temporary)


def _check_options(given: Mapping[str, Any], is_export: bool) -> None:
    known = ("threads", *EXPORT) if is_export else (*RUN, *HUB)
    unknown = [name for name in given if name not in known]
    advice = "" if is_export else "; those of an export need export=True"
    faults = [f"{', '.join(unknown)} is no option here; there are {', '.join(known)}{advice}"] if unknown else []
    threads = given.get("threads")
    if not (threads is None or (isinstance(threads, int) and not isinstance(threads, bool) and threads > 0)):
        faults.append(f"threads={threads!r} must be a whole number of at least 1, or None for one per core")
    raise_if_any(LoadError, "from_pretrained", faults)


def _chosen(model: str, given: Mapping[str, Any]) -> Chosen:
    """What an export is asked for. A bundle in the place of a checkpoint is a common mistake, and has an answer."""
    if (Path(model) / MANIFEST_NAME).is_file():
        raise LoadError(model, ["it is a bundle already; leave export=True and its options out"])
    recipe = {name: given[name] for name in RECIPE if name in given}
    backends = recipe.get("backends", ())
    if backends:
        recipe["backends"] = (backends,) if isinstance(backends, str) else tuple(backends)
    return chosen_recipe(given.get("recipe"), given.get("device"), {"model": model, **recipe})


def _require_kind(model: str, found: ModelKind, wanted: ModelKind) -> None:
    """Of a model before minutes are spent on its export, and of a bundle before its program is loaded."""
    if found != wanted:
        raise LoadError(model, [f"it is {found} and no {wanted}; use {CLASSES[found]}"])


def _export(chosen: Chosen, given: Mapping[str, Any], temporary: TemporaryDirectory[str] | None) -> Path:
    from exporter.pipeline import export_bundle

    max_memory = given.get("max_memory")
    output = Path(given["output"]) if temporary is None else Path(temporary.name) / "model.bundle"
    with said_of(chosen):
        export_bundle(
            chosen.recipe,
            output,
            force=given.get("force", False),
            verify=given.get("verify", True),
            greedy=given.get("greedy", chosen.greedy),
            max_memory_bytes=chosen.memory_bytes if max_memory is None else parse_bytes(str(max_memory)),
        )
    return output


def _require_bundle(path: Path) -> None:
    """A checkpoint in the place of a bundle is a common mistake, and has an answer."""
    if path.is_dir() and (path / CONFIG_NAME).is_file() and not (path / MANIFEST_NAME).is_file():
        fault = "it is a checkpoint and no bundle; add export=True, or export it with export-model"
        raise LoadError(str(path), [fault])


def _download(model: str, given: Mapping[str, Any]) -> Path:
    """The files of a Hub repository, in a directory of their own: links into a shared cache lead out of a bundle."""
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.utils import validate_repo_id

    revision = given.get("revision") or "main"
    try:
        validate_repo_id(model)
        cache = Path(given.get("cache_dir") or constants.HF_HUB_CACHE)
        target = cache / "fixed-capacity" / model.replace("/", "--") / revision
        hub = {name: given[name] for name in ("token", "local_files_only") if name in given}
        return Path(snapshot_download(model, revision=revision, local_dir=target, **hub))
    except Exception as error:  # the Hub's client raises a dozen kinds, for a name as for a network that is down
        fault = f"there is no such directory, and the Hub gives none: {one_line(error)}"
        raise ModelSourceError(model, [fault]) from None  # its own traceback is a hundred lines of sockets


def _configs(bundle: Bundle) -> tuple[PretrainedConfig, GenerationConfig]:
    listed = {entry.path for entry in bundle.manifest.files}
    missing = [name for name in (CONFIG_NAME, GENERATION_CONFIG_NAME) if name not in listed]
    if missing:
        raise UserInputError(f"{bundle.root}: it has no {' and no '.join(missing)}; export the model again")
    root = str(bundle.root)
    config = AutoConfig.from_pretrained(root, local_files_only=True)
    return config, GenerationConfig.from_pretrained(root, local_files_only=True)
