#include "manifest_fields.h"

#include <algorithm>

#include "strict_types.h"

namespace fixed_capacity {
namespace {

bool is_lower_hexadecimal(char letter) { return ('0' <= letter && letter <= '9') || ('a' <= letter && letter <= 'f'); }

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), is_lower_hexadecimal);
}

bool is_name(std::string_view text) { return !text.empty() && text.find('\n') == text.npos; }

// A name between the "/" of a path: none that leads elsewhere, or that another system reads differently.
bool is_path_part(std::string_view part) {
  const auto is_refused = [](char c) { return c == '\\' || c == ':' || static_cast<unsigned char>(c) < 0x20; };
  return !part.empty() && part != "." && part != ".." && std::none_of(part.begin(), part.end(), is_refused);
}

bool is_relative_path(std::string_view text) {
  for (size_t end = text.find('/'); end != text.npos; end = text.find('/')) {
    if (!is_path_part(text.substr(0, end))) return false;
    text.remove_prefix(end + 1);
  }
  return is_path_part(text);
}

bool is_any(std::string_view) { return true; }

constexpr IntegerType kCount{0}, kSize{1};
constexpr FlagType kFlag{};
constexpr ObjectType kObject{};
constexpr TextType kText{is_any, "a text"};
constexpr TextType kName{is_name, "a text that is not empty"};
constexpr TextType kSha256{is_sha256, "a SHA-256 of 64 lower-case hexadecimal digits"};
constexpr TextType kRelativePath{
    is_relative_path, "a relative path inside the bundle (\"/\" between names; no \"..\", \"\\\" or \":\")"};

constexpr ChoiceType<3> kModelKind{{"decoder_only", "text_seq2seq", "speech_seq2seq"}};  // as in ModelKind
constexpr ChoiceType<3> kCacheKind{{"full", "sliding", "cross"}};                        // as in CacheKind
constexpr ChoiceType<2> kAttention{{"fused", "portable"}};
constexpr ChoiceType<3> kBackend{{"xnnpack", "portable", "onnx"}};
constexpr ChoiceType<2> kFormat{{"executorch", "onnx"}};
constexpr ChoiceType<6> kRole{{"program", "tokenizer", "golden", "preprocessor", "config", "draft"}};
constexpr ChoiceType<2> kIndexType{{"int64", "int32"}};
constexpr ChoiceType<3> kFloatType{{"float32", "float16", "bfloat16"}};
constexpr ChoiceType<4> kCacheType{{"float32", "float16", "bfloat16", "int8"}};
constexpr ChoiceType<7> kTensorType{{"float32", "float16", "bfloat16", "int64", "int32", "int8", "bool"}};

}  // namespace

std::string_view name_of(ModelKind kind) { return kModelKind.names[static_cast<size_t>(kind)]; }
std::string_view name_of(CacheKind kind) { return kCacheKind.names[static_cast<size_t>(kind)]; }

using Fields = std::vector<Field>;

static Fields fields_of(ModelSource& to) {
  return {field("model", kName, to.model),
          field("revision", kName, to.revision),
          field("model_type", kName, to.model_type),
          field("architecture", kName, to.architecture),
          field("random_weights", kFlag, to.random_weights),
          field("seed", kCount, to.seed),
          field("parameter_count", kCount, to.parameter_count),
          field("vocab_size", kSize, to.vocab_size)};
}

static Fields fields_of(ResolvedRecipe& to) {
  return {field("model", kName, to.model),
          field("max_batch", kSize, to.max_batch),
          field("max_enc", kSize, to.max_enc),
          field("max_dec", kSize, to.max_dec),
          field("max_draft", kCount, to.max_draft),
          field("prefill_chunk", kSize, to.prefill_chunk),
          field("backends", kBackend, to.backends),
          field("attention", kAttention, to.attention),
          field("quantize", kName, to.quantize),
          field("embedding_bits", kSize, to.embedding_bits),
          field("group_size", kSize, to.group_size),
          field("dtype", kFloatType, to.dtype),
          field("index_dtype", kIndexType, to.index_dtype),
          field("draft", kName, to.draft)};
}

static Fields fields_of(Limits& to) {
  return {field("max_batch", kSize, to.max_batch),
          field("max_enc", kSize, to.max_enc),
          field("max_dec", kSize, to.max_dec),
          field("max_draft", kCount, to.max_draft),
          field("max_step", kSize, to.max_step),
          field("max_logit_rows", kSize, to.max_logit_rows),
          field("source_shape", kSize, to.source_shape)};
}

static Fields fields_of(SoundPositions& to) {
  return {field("window", kSize, to.window), field("stride", kSize, to.stride)};
}

static Fields fields_of(Speech& to) {
  return {field("sampling_rate", kSize, to.sampling_rate), field("samples", kSize, to.samples),
          field("positions", kObject, to.positions)};
}

static Fields fields_of(Assistant& to) { return {field("hidden_size", kSize, to.hidden_size)}; }

static Fields fields_of(CacheEntry& to) {
  return {field("name", kName, to.name),
          field("layer", kCount, to.layer),
          field("kind", kCacheKind, to.kind),
          field("reach", kSize, to.reach),
          field("slots", kSize, to.slots),
          field("kv_heads", kSize, to.kv_heads),
          field("key_dim", kSize, to.key_dim),
          field("value_dim", kSize, to.value_dim),
          field("dtype", kCacheType, to.dtype),
          field("size_bytes", kSize, to.size_bytes)};
}

static Fields fields_of(Dim& to) {
  return {field("name", kName, to.name), field("minimum", kCount, to.minimum), field("maximum", kCount, to.maximum)};
}

static Fields fields_of(TensorEntry& to) {
  return {field("name", kName, to.name), field("dtype", kTensorType, to.dtype), field("dims", kObject, to.dims)};
}

static Fields fields_of(MethodEntry& to) {
  return {field("name", kName, to.name), field("inputs", kObject, to.inputs), field("outputs", kObject, to.outputs)};
}

static Fields fields_of(ProgramEntry& to) {
  return {field("file", kRelativePath, to.file),
          field("format", kFormat, to.format),
          field("backend", kBackend, to.backend),
          field("attention", kAttention, to.attention),
          field("operator_library_required", kFlag, to.operator_library_required),
          field("methods", kObject, to.methods),
          field("planned_bytes", kCount, to.planned_bytes),
          field("weights_bytes", kCount, to.weights_bytes)};
}

static Fields fields_of(ForcedToken& to) {
  return {field("position", kCount, to.position), field("token", kCount, to.token)};
}

static Fields fields_of(TokenRules& to) {
  return {field("vocab_size", kSize, to.vocab_size),
          field("eos", kCount, to.eos),
          field("pad", kCount, to.pad),
          field("start", kCount, to.start),
          field("forced", kObject, to.forced),
          field("suppress", kCount, to.suppress),
          field("begin_suppress", kCount, to.begin_suppress)};
}

static Fields fields_of(GenerationSettings& to) { return {field("max_new_tokens", kSize, to.max_new_tokens)}; }

static Fields fields_of(MemoryPlan& to) {
  return {field("weights_bytes", kCount, to.weights_bytes),
          field("cache_bytes", kCount, to.cache_bytes),
          field("activation_bytes", kCount, to.activation_bytes),
          field("planned_bytes", kCount, to.planned_bytes),
          field("note", kText, to.note)};
}

static Fields fields_of(PackageVersion& to) {
  return {field("name", kName, to.name), field("version", kName, to.version)};
}

static Fields fields_of(FileEntry& to) {
  return {field("path", kRelativePath, to.path),
          field("role", kRole, to.role),
          field("sha256", kSha256, to.sha256),
          field("size_bytes", kCount, to.size_bytes)};
}

static Fields fields_of(Manifest& to) {
  return {field("format_version", kSize, to.format_version),
          field("kind", kModelKind, to.kind),
          field("source", kObject, to.source),
          field("recipe", kObject, to.recipe),
          field("limits", kObject, to.limits),
          field("speech", kObject, to.speech),
          field("assistant", kObject, to.assistant),
          field("caches", kObject, to.caches),
          field("programs", kObject, to.programs),
          field("tokens", kObject, to.tokens),
          field("generation", kObject, to.generation),
          field("quantization", kName, to.quantization),
          field("memory", kObject, to.memory),
          field("packages", kObject, to.packages),
          field("files", kObject, to.files)};
}

Faults read_manifest_fields(const JsonValue& data, Manifest& into) {
  Faults faults;
  read(Place{data, "", faults}, kObject, into);
  return faults;
}

}  // namespace fixed_capacity
