"""Speech encoder-decoders: features of one length (Whisper), or sound of any length (Moonshine, Speech2Text)."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import PreTrainedModel

from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.families import Sound
from runtime_shims.contract.manifest import Attention
from runtime_shims.contract.sound_positions import SoundPositions

from . import gated_frames, sound_frames
from .encoder_decoder import Decode, Encode
from .fixed_capacity_model import FixedCapacityModel, attention_modules
from .sound_frames import positions_of
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
    prepare(root, plan.sound)
    return {"encode": SoundEncode(root, plan.sound.positions), "decode": Decode(root)}


def prepare(root: FixedCapacityModel, sound: Sound) -> None:
    """Make an encoder hear each row alone, and keep heads at their own size.

    Raises:
        ValueError: the model's convolutions are not those of its family.
    """
    encoder, positions = root.model.get_encoder(), sound.positions
    reach_of = sound_frames.reach_of if sound.bands is None else gated_frames.reach_of
    if reach_of(encoder) != (positions.window, positions.stride):
        raise ValueError(f"the encoder hears {reach_of(encoder)} samples per position, expected {positions}")
    if sound.bands is None:
        sound_frames.hear_rows(encoder, root.step)
    else:
        gated_frames.hear_features(encoder, sound.sampling_rate, root.step)
    for _, module in attention_modules(root.model):
        module.head_dim_padding = 0  # zeros for kernels that need a round size; caches would store them


class SoundEncode(Encode):
    """`encode(waveform[b, h, S], sample_lengths[b]) -> int64[b]`: zeros follow a row's samples."""

    def __init__(self, root: FixedCapacityModel, positions: SoundPositions) -> None:
        super().__init__(root, root.model.get_encoder().main_input_name)
        self.positions = positions

    def forward(self, source: Tensor, sample_lengths: Tensor) -> Tensor:
        enc_lengths = positions_of(sample_lengths, self.positions.window, self.positions.stride)
        return self.write(source, enc_lengths, sample_lengths)
