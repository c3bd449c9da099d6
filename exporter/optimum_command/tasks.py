"""Tasks in optimum's words, and the kinds of models that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.optimum_command.options import AUTO
from exporter.spec.faults import SpecError
from exporter.spec.model_source import resolve_source
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from runtime_shims.contract.manifest import ModelKind

if TYPE_CHECKING:
    from transformers import PretrainedConfig

TASKS: dict[ModelKind, str] = {
    "decoder_only": "text-generation",
    "text_seq2seq": "text2text-generation",
    "speech_seq2seq": "automatic-speech-recognition",
}
_WITH_CACHE = "-with-past"


class TaskError(SpecError):
    """A task that the model does not have."""


def resolve_task(asked: str, recipe: Recipe) -> str:
    """The task of the model that `recipe` names: `asked`, or with `auto` what optimum infers.

    Raises:
        SpecError: the model is refused, or `asked` is not its task; one line.
    """
    config = resolve_source(recipe).load_config()
    own = TASKS[ModelSpec.from_config(config).kind]
    if asked == AUTO:
        inferred = _inferred(config)
        return own if inferred is None or _canonical(inferred) != own else inferred
    if _canonical(asked) != own:
        raise TaskError(f"--task {asked}", [f"{recipe.model} is for {own}; give that, or leave --task out"])
    return asked


def _canonical(task: str) -> str:
    """The name of a task without synonyms. Bundles have caches, whether the task is asked for with them or not."""
    from optimum.exporters.tasks import TasksManager

    name: str = TasksManager.map_from_synonym(task)
    return name.removesuffix(_WITH_CACHE)


def _inferred(config: PretrainedConfig) -> str | None:
    """What optimum infers from the model's class; None where the config names none, or none that optimum knows."""
    import transformers
    from optimum.exporters.tasks import TasksManager

    model_class = getattr(transformers, next(iter(config.architectures or ()), ""), None)
    if model_class is None:
        return None
    try:
        return str(TasksManager.infer_task_from_model(model_class))
    except ValueError:  # it has no task of that class
        return None
