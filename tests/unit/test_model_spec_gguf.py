"""A `.gguf` file as a source, made here: two layers, float32 and Q8_0 tensors."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from exporter.spec.faults import ModelSourceError
from exporter.spec.gguf_reading import quick_reader, quick_reading
from exporter.spec.model_source import resolve_source
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe

HIDDEN, INNER, HEADS, KV_HEADS, VOCAB, LAYERS = 64, 96, 4, 2, 48, 2
KV_WIDTH = HIDDEN // HEADS * KV_HEADS
SHAPES = {
    "attn_norm": (HIDDEN,),
    "ffn_norm": (HIDDEN,),
    "attn_q": (HIDDEN, HIDDEN),
    "attn_k": (KV_WIDTH, HIDDEN),
    "attn_v": (KV_WIDTH, HIDDEN),
    "attn_output": (HIDDEN, HIDDEN),
    "ffn_gate": (INNER, HIDDEN),
    "ffn_up": (INNER, HIDDEN),
    "ffn_down": (HIDDEN, INNER),
}


def write_gguf(path: Path, *, left_out: str | None = None) -> dict[str, np.ndarray]:
    """A tiny Llama without a head of its own; returns the tensors that were written in float32."""
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"<{index}>" for index in range(VOCAB)])
    writer.add_token_types([1] * VOCAB)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(3)
    tensors = {"token_embd.weight": (VOCAB, HIDDEN), "output_norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        tensors |= {f"blk.{layer}.{name}.weight": shape for name, shape in SHAPES.items()}
    plain = {}
    for name, shape in tensors.items():
        values = random.standard_normal(shape, dtype=np.float32)
        if name == left_out:
            continue
        if "ffn_up" in name:
            packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(name, values)
            plain[name] = values
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return plain


def test_a_gguf_file_loads_in_float32_and_saves_as_a_plain_checkpoint(tmp_path: Path) -> None:
    plain = write_gguf(tmp_path / "tiny.gguf")
    source = resolve_source(Recipe(str(tmp_path / "tiny.gguf")))
    spec = ModelSpec.from_config(source.load_config())
    assert (spec.model_type, len(spec.layers), spec.max_positions) == ("llama", LAYERS, 256)
    assert {layer.kv_heads for layer in spec.layers} == {KV_HEADS}
    model = source.load_model()
    assert model.dtype == torch.float32
    assert sum(parameter.numel() for parameter in model.parameters()) == spec.parameter_count
    down = model.state_dict()["model.layers.1.mlp.down_proj.weight"]
    assert torch.equal(down, torch.from_numpy(plain["blk.1.ffn_down.weight"]))
    assert source.name == "tiny.gguf"
    assert source.load_generation_config().eos_token_id == 3
    model.save_pretrained(tmp_path / "plain")
    again = resolve_source(Recipe(str(tmp_path / "plain"))).load_model()
    assert all(torch.equal(again.state_dict()[key], value) for key, value in model.state_dict().items())


def test_a_gguf_file_that_lacks_a_tensor_is_refused_by_name(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", left_out="blk.1.ffn_gate.weight")
    with pytest.raises(ModelSourceError, match=r"1 weights are missing: model.layers.1.mlp.gate_proj.weight"):
        resolve_source(Recipe(str(tmp_path / "tiny.gguf"))).load_model()


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 not a model", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 40]
)
def test_a_file_that_only_claims_to_be_gguf_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fake.gguf").write_bytes(content)
    with pytest.raises(ModelSourceError) as refused:
        resolve_source(Recipe(str(tmp_path / "fake.gguf"))).load_config()
    assert "\n" not in str(refused.value)


def test_the_quick_reader_reads_what_the_stock_reader_reads(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    stock, quick = (reader(tmp_path / "tiny.gguf") for reader in (gguf.GGUFReader, quick_reader()))
    assert list(stock.fields) == list(quick.fields)
    for name, field in stock.fields.items():
        assert field.contents() == quick.fields[name].contents()
    for expected, found in zip(stock.tensors, quick.tensors, strict=True):
        assert (expected.name, expected.tensor_type) == (found.name, found.tensor_type)
        assert np.array_equal(expected.data, found.data)


def test_the_stock_reader_is_back_after_a_failure() -> None:
    stock = gguf.GGUFReader

    def fail() -> None:
        assert gguf.GGUFReader is not stock
        raise KeyError

    with pytest.raises(KeyError), quick_reading():
        fail()
    assert gguf.GGUFReader is stock
