"""The rings of drop-in caches against a plain list: random steps of any width, rollbacks, chained ones, resets.

A position's key is a number of its own, so what comes back says which positions were read. Both spellings of the ring
are held to the list: the slices of eager PyTorch and the indices that `torch.compile` gets.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from exporter.drop_in.caches import FixedCapacityCache
from exporter.drop_in.plan import CachePlan, Capacity, LayerPlan
from exporter.drop_in.self_attention import SelfAttentionLayer
from runtime_shims.contract.errors import RollbackTooDeep

CAPACITY = Capacity(2, None, 400, 0, torch.float64, torch.device("cpu"))


class PlainList:
    """A cache of one layer beside the list that it must be equal to; two rows that hold different numbers."""

    def __init__(self, window: int | None, max_draft: int) -> None:
        plan = CachePlan((LayerPlan(1, 1, 1, window),), replace(CAPACITY, max_draft=max_draft))
        self.cache = FixedCapacityCache(plan)
        self.layer: SelfAttentionLayer = self.cache.owners[0]
        self.reach = window or CAPACITY.max_dec
        self.held: list[float] = []
        self.serial = 0.0
        self.wrong_reads = 0

    def write(self, count: int) -> None:
        """A step of `count` positions; what it may attend to is compared, and the mask's sizes with it."""
        new = [self.serial + index for index in range(count)]
        self.serial += count
        first = max(len(self.held) - self.reach + 1, 0)
        expected = self.held[first:] + new
        assert self.cache.get_mask_sizes(count, 0) == (len(expected), first)
        states = _states(new)
        keys, values = self.cache.update(states, -states, 0)
        self.wrong_reads += not torch.equal(keys, _states(expected)) or not torch.equal(values, -_states(expected))
        self.held += new

    def take_back(self, count: int, keep: bool) -> None:
        """Roll back by either convention. A positive one cannot say that nothing is kept."""
        left = len(self.held) - count
        self.cache.crop(left if keep and left else -count)
        del self.held[left:]
        first = max(left - self.reach + 1, 0)
        if left:
            self.wrong_reads += not torch.equal(self.layer.keys, _states(self.held[first:]))

    def reset(self) -> None:
        self.cache.reset()
        self.held.clear()


def _states(numbers: list[float]) -> Tensor:
    """[2 rows, 1 head, T, 1]."""
    row = torch.tensor(numbers, dtype=torch.float64).reshape(1, 1, -1, 1)
    return torch.cat([row, 1000 - row])


def drive(plain: PlainList, rounds: int, draw: random.Random) -> None:
    """Random acts, every one of which is allowed; what is not is refused and changes nothing."""
    for _ in range(rounds):
        act = draw.choice(["write", "write", "write", "take back", "take back", "too deep", "reset"])
        room = CAPACITY.max_dec - len(plain.held)
        if act == "reset" and draw.random() < 0.2:
            plain.reset()
        elif act == "write" and room:
            widest = draw.choice([1, plain.layer.geometry.max_step, 3 * plain.layer.slots])
            plain.write(draw.randint(1, min(widest, room)))
        elif act == "take back":
            plain.take_back(draw.randint(0, plain.layer.max_rollback), draw.random() < 0.5)
        elif act == "too deep":
            before = plain.cache.get_seq_length()
            with pytest.raises(RollbackTooDeep):
                plain.cache.crop(-plain.layer.max_rollback - 1)
            assert plain.cache.get_seq_length() == before


@pytest.mark.parametrize("spelling", ["slices", "indices"])
def test_every_read_of_a_ring_is_what_a_list_holds(spelling: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if spelling == "indices":
            patch.setattr(torch.compiler, "is_compiling", lambda: True)

        @settings(max_examples=150, deadline=None)
        @given(st.integers(1, 12) | st.none(), st.integers(0, 7), st.integers(0, 10**6))
        def run(window: int | None, max_draft: int, seed: int) -> None:
            plain = PlainList(window, max_draft)
            drive(plain, 40, random.Random(seed))
            assert plain.wrong_reads == 0

        run()


class OneSlotShort(PlainList):
    """The negative control: the floor of rollbacks as the law says, the buffers with one slot too few."""

    def __init__(self, window: int, max_draft: int) -> None:
        super().__init__(window, max_draft)
        self.layer.slots -= 1
        self.layer.key_buffer = self.layer.key_buffer[:, :, 1:].clone()
        self.layer.value_buffer = self.layer.value_buffer[:, :, 1:].clone()


def test_one_slot_fewer_reads_what_is_not_there() -> None:
    wrong = 0
    for seed in range(60):
        plain = OneSlotShort(5, 3)
        drive(plain, 40, random.Random(seed))
        wrong += plain.wrong_reads > 0
    assert wrong >= 50
