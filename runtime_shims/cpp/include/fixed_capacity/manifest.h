// The manifest of a bundle: everything a runtime must know. The twin of runtime_shims/contract/manifest.py, key by key;
// what its types say there in words is checked here by src/manifest_fields.cpp.
//
// All sizes are bytes; all counts, positions and token ids are integers; a std::optional without a value is JSON null.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fixed_capacity/cache_geometry.h"
#include "fixed_capacity/faults.h"
#include "fixed_capacity/result.h"
#include "fixed_capacity/sound_positions.h"

namespace fixed_capacity {

inline constexpr int64_t kFormatVersion = 1;
inline constexpr std::string_view kManifestName = "manifest.json";
// Where the manifest of a bundle's own draft lies.
inline constexpr std::string_view kDraftManifest = "draft/manifest.json";
// The own draft that is the same model in 4 bits.
inline constexpr std::string_view kSelfInt4 = "self-int4";
// What to do about a manifest that contradicts itself or its programs.
inline constexpr std::string_view kEdited = "the file was edited or damaged: export the model again";

enum class ModelKind { decoder_only, text_seq2seq, speech_seq2seq };

// The names that the manifest has for them.
std::string_view name_of(ModelKind kind);
std::string_view name_of(CacheKind kind);

// The model that was exported. `seed` is given exactly when the weights are random.
struct ModelSource {
  std::string model;
  std::optional<std::string> revision;
  std::string model_type, architecture;
  bool random_weights = false;
  std::optional<int64_t> seed;
  int64_t parameter_count = 0, vocab_size = 0;
};

// The export options with every default filled in. `max_enc` is null for decoder-only models. `index_dtype` is the type
// of token ids, positions and lengths, as the programs take them. `draft` is null, `self-int4`, or the model whose bundle
// lies in `draft`; with an assistant, the assistant.
struct ResolvedRecipe {
  std::string model;
  int64_t max_batch = 0;
  std::optional<int64_t> max_enc;
  int64_t max_dec = 0, max_draft = 0, prefill_chunk = 0;
  std::vector<std::string> backends;
  std::string attention, quantize;
  std::optional<int64_t> embedding_bits, group_size;
  std::string dtype, index_dtype;
  std::optional<std::string> draft;
};

// Upper bounds of one call and of one sequence; anything up to them is served.
//
// `max_step` is max(prefill_chunk, max_draft + 1), `max_logit_rows` is max_draft + 1. `source_shape` is the shape of
// one row of speech features (80, 3000) and null for text and for sound that is taken as it is.
struct Limits {
  int64_t max_batch = 0;
  std::optional<int64_t> max_enc;
  int64_t max_dec = 0, max_draft = 0, max_step = 0, max_logit_rows = 0;
  std::optional<std::vector<int64_t>> source_shape;
};

// The sound that programs take: one channel, `sampling_rate` values per second, at most `samples` values per row.
//
// Without `positions` method `features` takes exactly `samples` values, zeros behind what is shorter. With them there is no
// such method: `encode` takes the sound itself, of any length, in hops, and how many samples each row has. Null where the
// programs take no sound: for text, and for speech whose front end cannot be a method.
struct Speech {
  int64_t sampling_rate = 0, samples = 0;
  std::optional<SoundPositions> positions = {};
};

// A model that drafts tokens over the caches of this one (`draft`), from hidden states of `hidden_size` values.
//
// It reads the last self-attention cache of each kind. Null where the programs have no such method.
struct Assistant {
  int64_t hidden_size = 0;
};

// The key and the value cache of one layer: [max_batch, kv_heads, slots, key_dim or value_dim].
//
// `reach` is what is kept, up to the next position: the window of a sliding layer (two more where an assistant looks
// further; at most max_dec), max_dec of a full layer, max_enc of a cross layer. `size_bytes` counts keys and values
// together. With int8 the last size of the tensors is larger by 4: each position of a head ends with its scale, a
// float32.
struct CacheEntry {
  std::string name;
  int64_t layer = 0;
  CacheKind kind = CacheKind::full;
  int64_t reach = 0, slots = 0, kv_heads = 0, key_dim = 0, value_dim = 0;
  std::string dtype;
  int64_t size_bytes = 0;
};

// One dimension. Static: no name, minimum = maximum. Dynamic: a name, any value in between.
struct Dim {
  std::optional<std::string> name;
  int64_t minimum = 0, maximum = 0;
};

// One input or output of a method; no dims for a scalar.
struct TensorEntry {
  std::string name, dtype;
  std::vector<Dim> dims;
};

// One entry point of a program, tensors in call order.
struct MethodEntry {
  std::string name;
  std::vector<TensorEntry> inputs, outputs;
};

// One program file and what it takes to run it.
struct ProgramEntry {
  std::string file, format, backend, attention;
  bool operator_library_required = false;
  std::vector<MethodEntry> methods;
  int64_t planned_bytes = 0, weights_bytes = 0;
};

// The token that generation must emit at a decoder position.
struct ForcedToken {
  int64_t position = 0, token = 0;
};

// Which tokens begin, end, are forced, or may not be generated.
//
// `start` is the decoder prompt that is put before generation; empty for decoder-only models unless the tokenizer adds
// a first token. `begin_suppress` holds for the first generated token only.
struct TokenRules {
  int64_t vocab_size = 0;
  std::vector<int64_t> eos;
  std::optional<int64_t> pad;
  std::vector<int64_t> start;
  std::vector<ForcedToken> forced;
  std::vector<int64_t> suppress, begin_suppress;
};

// What the runtimes honour by default. Decoding is greedy.
struct GenerationSettings {
  std::optional<int64_t> max_new_tokens;
};

// Bytes known at export. `cache_bytes` is the sum over `caches`; `note` says what is not counted.
struct MemoryPlan {
  int64_t weights_bytes = 0, cache_bytes = 0, activation_bytes = 0, planned_bytes = 0;
  std::string note;
};

// A package that took part in the export.
struct PackageVersion {
  std::string name, version;
};

// One file of the bundle; the manifest itself is not listed.
struct FileEntry {
  std::string path, role, sha256;
  int64_t size_bytes = 0;
};

// The whole manifest. Building one by hand checks nothing; `from_json` checks everything.
struct Manifest {
  int64_t format_version = 0;
  ModelKind kind = ModelKind::decoder_only;
  ModelSource source;
  ResolvedRecipe recipe;
  Limits limits;
  std::optional<Speech> speech;
  std::optional<Assistant> assistant;
  std::vector<CacheEntry> caches;
  std::vector<ProgramEntry> programs;
  TokenRules tokens;
  GenerationSettings generation;
  std::string quantization;
  MemoryPlan memory;
  std::vector<PackageVersion> packages;
  std::vector<FileEntry> files;
};

// What the sound of a manifest becomes whose encoder takes any length of it; null for any other.
const SoundPositions* sound_positions(const Manifest& manifest);

// The manifest in a JSON text. `where` names its origin in messages. Refuses
//     format_too_new    what a newer version wrote; nothing else is looked at
//     manifest_invalid  with every fault of form, or else every contradiction between its parts
Result<Manifest> from_json(std::string_view text, std::string_view where = kManifestName);

}  // namespace fixed_capacity
