// Shape legend: B most rows, b rows of a call, K key/value heads, S slots, D key or value size, R logit rows,
// V vocabulary, C width of a hidden state.
#include "fixed_capacity/onnx_program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fixed_capacity/words.h"
#include "guarded.h"
#include "onnx_method.h"
#include "onnx_names.h"

namespace fixed_capacity {
namespace {

// The keys and values of every cache, [B, K, S, D] each, by the name of their input.
class CacheMemory {
 public:
  // False when this machine cannot give the memory.
  bool allocate(const Manifest& manifest);
  void clear();
  // The memory of the inputs `places`, under `names`.
  std::vector<OnnxCache> bound(const std::vector<std::string>& places, const std::vector<std::string>& names) const;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Held {
    OnnxCache cache;
    size_t bytes = 0;
    std::unique_ptr<void, Free> memory;
  };
  static constexpr size_t kAlignment = 64;

  std::vector<Held> held_;
};

bool CacheMemory::allocate(const Manifest& manifest) {
  for (const CacheEntry& entry : manifest.caches) {
    const std::vector<std::string> names = past_names({&entry}, manifest.kind);
    for (const bool is_key : {true, false}) {
      OnnxCache cache{names[is_key ? 0 : 1], entry.dtype, is_key ? key_sizes(entry) : value_sizes(entry)};
      const size_t bytes = static_cast<size_t>(manifest.limits.max_batch) * cache.row_bytes();
      cache.memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
      if (cache.memory == nullptr) return false;
      held_.push_back({cache, bytes, std::unique_ptr<void, Free>(cache.memory)});
    }
  }
  clear();
  return true;
}

void CacheMemory::clear() {
  for (const Held& held : held_) std::memset(held.memory.get(), 0, held.bytes);
}

std::vector<OnnxCache> CacheMemory::bound(const std::vector<std::string>& places,
                                          const std::vector<std::string>& names) const {
  std::vector<OnnxCache> bound;
  for (size_t index = 0; index < places.size(); ++index)
    for (const Held& held : held_) {
      if (held.cache.name != places[index]) continue;
      bound.push_back(held.cache);
      bound.back().name = names[index];
    }
  return bound;
}

class OnnxProgram final : public Program {
 public:
  OnnxProgram(const Bundle& bundle, const ProgramEntry& entry)
      : limits_(bundle.manifest.limits), vocab_size_(bundle.manifest.tokens.vocab_size), name_(entry.file) {
    if (bundle.manifest.assistant) hidden_size_ = bundle.manifest.assistant->hidden_size;
  }

  Status load(const Bundle& bundle, const ProgramEntry& entry, std::optional<int64_t> threads);
  Result<std::span<const float>> features(std::span<const float> waveforms, int64_t rows) override;
  Status encode(const EncoderInputs& inputs) override;
  Result<Logits> decode(const StepInputs& inputs) override;
  Result<std::span<const float>> hidden() override;
  Result<Drafted> draft(const DraftInputs& inputs) override;
  Status reset() override;

 private:
  Status allocate(const Manifest& manifest, const ProgramEntry& entry);
  Result<OnnxMethod*> method(const char* name);
  TensorSizes source_sizes(int64_t rows) const;

  Limits limits_;
  int64_t vocab_size_, hidden_size_ = 0;  // V; C or 0 without an assistant
  std::string name_;
  CacheMemory caches_;
  std::vector<OnnxMethod> methods_;
  std::vector<float> logits_, features_;      // [B, R, V], [B, *source_shape]
  std::vector<float> hidden_, next_hidden_;   // [B, R, C] of `decode`, [B, C] of `draft`
  std::span<const float> newest_hidden_;      // of the last step
  std::vector<int64_t> written_;              // [B] what `encode` returns, which nobody reads
};

Status OnnxProgram::load(const Bundle& bundle, const ProgramEntry& entry, std::optional<int64_t> threads) {
  Result<std::shared_ptr<const OnnxEnvironment>> environment = OnnxEnvironment::shared(threads);
  if (!environment) return environment.error();
  Faults faults = planned_faults(bundle.manifest, entry);
  for (const MethodEntry& method : entry.methods) {
    const Result<std::filesystem::path> path = bundle.file(method_path(entry.file, method.name));
    if (!path) return path.error();
    const std::string file = path->filename().string();
    Result<OnnxSession> session = (*environment)->open(*path, file);
    if (!session) return session.error();
    const Result<GraphSignature> stated = signature_of(session->get());
    if (!stated) return stated.error();
    const Faults found = method_faults(bundle.manifest, entry, method, *stated);
    faults.insert(faults.end(), found.begin(), found.end());
    methods_.emplace_back(*environment, std::move(session).value(), file, method);
  }
  // Nothing is sized by a manifest that the graphs contradict.
  if (!faults.empty())
    return Error{ErrorCode::manifest_invalid, faults_text((bundle.root / kManifestName).string(), faults, kEdited)};
  return allocate(bundle.manifest, entry);
}

Status OnnxProgram::allocate(const Manifest& manifest, const ProgramEntry& entry) {
  if (!caches_.allocate(manifest))
    return refusal(ErrorCode::out_of_memory, name_, ": this machine cannot give the ", entry.planned_bytes,
                   " bytes that it plans; export with lower limits");
  for (OnnxMethod& method : methods_) {
    const std::string& name = method.entry().name;
    const CacheList written = written_caches(name, manifest.caches);
    const std::vector<std::string> taken = past_names(read_caches(name, manifest.caches), manifest.kind);
    method.use_caches(limits_.max_batch, caches_.bound(taken, taken),
                      caches_.bound(past_names(written, manifest.kind), present_names(written, manifest.kind)));
  }
  const auto rows = static_cast<size_t>(limits_.max_batch);
  logits_.resize(rows * static_cast<size_t>(limits_.max_logit_rows) * static_cast<size_t>(vocab_size_));
  hidden_.resize(rows * static_cast<size_t>(limits_.max_logit_rows) * static_cast<size_t>(hidden_size_));
  next_hidden_.resize(rows * static_cast<size_t>(hidden_size_));
  written_.resize(rows);
  if (manifest.speech && !manifest.speech->positions) features_.resize(source_sizes(limits_.max_batch).count());
  return {};
}

Result<OnnxMethod*> OnnxProgram::method(const char* name) {
  std::string known;
  for (OnnxMethod& method : methods_) {
    if (method.entry().name == name) return &method;
    known += words(known.empty() ? "" : ", ", method.entry().name);
  }
  return refusal(ErrorCode::user_input, "this program has no method ", name, ": ", known);
}

// What the encoder of a speech model takes.
TensorSizes OnnxProgram::source_sizes(int64_t rows) const {
  TensorSizes sizes{rows};
  if (limits_.source_shape)
    for (const int64_t size : *limits_.source_shape) sizes.add(size);
  return sizes;
}

Result<std::span<const float>> OnnxProgram::features(std::span<const float> waveforms, int64_t rows) {
  const Result<OnnxMethod*> found = method("features");
  if (!found) return found.error();
  const OnnxArgument waveform{{}, waveforms, {rows, static_cast<int64_t>(waveforms.size()) / rows}};
  const TensorSizes sizes = source_sizes(rows);
  const OnnxResult made{features_.data(), sizes};
  if (Status done = (*found)->run({&waveform, 1}, {&made, 1}); !done) return done.error();
  return std::span<const float>(features_).first(sizes.count());
}

Status OnnxProgram::encode(const EncoderInputs& inputs) {
  const Result<OnnxMethod*> found = method("encode");
  if (!found) return found.error();
  const bool is_text = inputs.features.empty();
  const TensorSizes sizes = inputs.hop > 0 ? TensorSizes{inputs.rows, inputs.width, inputs.hop}
                            : is_text      ? TensorSizes{inputs.rows, inputs.width}
                                           : source_sizes(inputs.rows);
  const OnnxArgument arguments[] = {{inputs.ids, inputs.features, sizes}, {inputs.lengths, {}, {inputs.rows}}};
  const OnnxResult written{written_.data(), {inputs.rows}};
  return (*found)->run(arguments, {&written, 1});
}

Result<Logits> OnnxProgram::decode(const StepInputs& inputs) {
  if (Status fits = inputs.check_limits(limits_); !fits) return fits.error();
  const Result<OnnxMethod*> found = method("decode");
  if (!found) return found.error();
  const int64_t rows = inputs.rows, count = inputs.logit_count;
  const OnnxArgument arguments[] = {{inputs.tokens, {}, {rows, inputs.width}},
                                    {inputs.positions, {}, {rows}},
                                    {inputs.step_lengths, {}, {rows}},
                                    {inputs.logit_rows, {}, {rows, count}},
                                    {inputs.enc_lengths, {}, {rows}}};
  const auto given = std::span(arguments).first(inputs.enc_lengths.empty() ? 4 : 5);
  const OnnxResult results[] = {{logits_.data(), {rows, count, vocab_size_}},
                                {hidden_.data(), {rows, count, hidden_size_}}};
  const auto wanted = std::span(results).first(hidden_size_ > 0 ? 2 : 1);
  if (Status done = (*found)->run(given, wanted); !done) return done.error();
  newest_hidden_ = std::span(hidden_).first(static_cast<size_t>(rows * count * hidden_size_));
  return Logits{logits_.data(), rows, count, vocab_size_};
}

Result<std::span<const float>> OnnxProgram::hidden() {
  if (newest_hidden_.empty()) return refusal(ErrorCode::user_input, name_, " has no assistant, or has run no step");
  return newest_hidden_;
}

Result<Drafted> OnnxProgram::draft(const DraftInputs& inputs) {
  const Result<OnnxMethod*> found = method("draft");
  if (!found) return found.error();
  const int64_t rows = inputs.rows;
  const OnnxArgument arguments[] = {{inputs.tokens, {}, {rows, 1}},
                                    {{}, inputs.hidden, {rows, hidden_size_}},
                                    {inputs.positions, {}, {rows}},
                                    {inputs.step_lengths, {}, {rows}}};
  const OnnxResult results[] = {{logits_.data(), {rows, 1, vocab_size_}}, {next_hidden_.data(), {rows, hidden_size_}}};
  newest_hidden_ = {};  // their logits are gone
  if (Status done = (*found)->run(arguments, results); !done) return done.error();
  return Drafted{{logits_.data(), rows, 1, vocab_size_},
                 std::span<const float>(next_hidden_).first(static_cast<size_t>(rows * hidden_size_))};
}

// Sessions hold no state.
Status OnnxProgram::reset() {
  caches_.clear();
  newest_hidden_ = {};
  return {};
}

}  // namespace

Result<std::unique_ptr<Program>> load_onnx_program(const Bundle& bundle, const ProgramEntry& entry,
                                                   std::optional<int64_t> threads) {
  const std::string planned = words(entry.file, ", which plans ", entry.planned_bytes, " bytes,");
  return guarded(planned.c_str(), [&]() -> Result<std::unique_ptr<Program>> {
    auto program = std::make_unique<OnnxProgram>(bundle, entry);
    if (Status loaded = program->load(bundle, entry, threads); !loaded) return loaded.error();
    return std::unique_ptr<Program>(std::move(program));
  });
}

std::string onnxruntime_version() { return OrtGetApiBase()->GetVersionString(); }

}  // namespace fixed_capacity
