"""`Deployment`: one model with a recipe for each class of device that runs it. Values live in `recipes/`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from exporter.spec.recipe import Recipe

DeviceName = Literal["phone", "board", "laptop"]
DEVICE_NAMES: tuple[DeviceName, ...] = get_args(DeviceName)


@dataclass(frozen=True)
class Device:
    """A class of device.

    Attributes:
        stands_for: machines that are meant.
        memory_bytes: what one model may take of their memory: weights, caches, logits, and its draft.
    """

    name: DeviceName
    stands_for: str
    memory_bytes: int


@dataclass(frozen=True)
class Deployment:
    """What is asked of one model, on each class of device; the same model in all recipes.

    Attributes:
        anywhere: the recipe that is meant for no device in particular, in the precision of the checkpoint.
        greedy: decode greedily where the checkpoint asks for sampling or beams; both are given when a bundle runs.
    """

    anywhere: Recipe
    phone: Recipe
    board: Recipe
    laptop: Recipe
    greedy: bool = False

    def on(self, device: DeviceName | None) -> Recipe:
        """The recipe for a class of device; None: the one for none in particular."""
        recipes = {None: self.anywhere, "phone": self.phone, "board": self.board, "laptop": self.laptop}
        return recipes[device]
