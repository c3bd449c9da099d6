"""Speech encoder-decoders: features of one length (Whisper), or sound of any length (Moonshine)."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import PreTrainedModel

from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.contract.manifest import Attention
from runtime_shims.contract.sound_positions import SoundPositions

from .encoder_decoder import Decode, Encode
from .fixed_capacity_model import FixedCapacityModel, attention_modules
from .sound_frames import hear_rows, positions_of, reach_of
from .text_seq2seq import bind_decoder, bind_encoder


def build(model: PreTrainedModel, plan: CapacityPlan, attention: Attention) -> dict[str, nn.Module]:
    """The methods of a speech program: `decode`, and `encode` of features or of sound.

    `encode(input_features[b, mels, frames], enc_lengths[b])` or `encode(waveform[b, h, S], sample_lengths[b])`.
    """
    root = FixedCapacityModel(model, plan, attention)
    bind_encoder(root)
    bind_decoder(root)
    if plan.sound is None:
        return {"encode": Encode(root, "input_features"), "decode": Decode(root)}
    prepare(root, plan.sound.positions)
    return {"encode": SoundEncode(root, plan.sound.positions), "decode": Decode(root)}


def prepare(root: FixedCapacityModel, positions: SoundPositions) -> None:
    """Make an encoder hear each row alone, and keep heads at their own size.

    Raises:
        ValueError: the model's convolutions are not those of its family.
    """
    encoder = root.model.get_encoder()
    if reach_of(encoder) != (positions.window, positions.stride):
        raise ValueError(f"the encoder hears {reach_of(encoder)} samples per position, expected {positions}")
    hear_rows(encoder, root.step)
    for _, module in attention_modules(root.model):
        module.head_dim_padding = 0  # zeros for kernels that need a round size; caches would store them


class SoundEncode(Encode):
    """`encode(waveform[b, h, S], sample_lengths[b]) -> int64[b]`: zeros follow a row's samples."""

    def __init__(self, root: FixedCapacityModel, positions: SoundPositions) -> None:
        super().__init__(root, "input_values")
        self.positions = positions

    def forward(self, source: Tensor, sample_lengths: Tensor) -> Tensor:
        enc_lengths = positions_of(sample_lengths, self.positions.window, self.positions.stride)
        return self.write(source, enc_lengths, sample_lengths)
