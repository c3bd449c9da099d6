#include "fixed_capacity/executorch_program.h"

#include <executorch/extension/data_loader/mmap_data_loader.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <array>

#include "executorch_argument.h"
#include "executorch_log.h"
#include "executorch_memory.h"
#include "executorch_program_check.h"
#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

namespace et = executorch::runtime;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::extension::MallocMemoryAllocator;
using executorch::extension::MmapDataLoader;

constexpr const char* kReload = "export the bundle again, or run it with the ExecuTorch version it was made for";

// A loaded method and the allocators that it keeps pointers to.
struct LoadedMethod {
  explicit LoadedMethod(std::vector<et::Span<uint8_t>> arena_spans)
      : spans(std::move(arena_spans)),
        planned({spans.data(), spans.size()}),
        manager(&allocator, &planned, &temporary) {}

  std::vector<et::Span<uint8_t>> spans;
  et::HierarchicalAllocator planned;
  MallocMemoryAllocator allocator, temporary;
  et::MemoryManager manager;
  std::optional<et::Method> method;
};

class ExecutorchProgram final : public Program {
 public:
  ExecutorchProgram(const Bundle& bundle, const ProgramEntry& entry)
      : path_((bundle.root / entry.file).string()), name_(entry.file), limits_(bundle.manifest.limits) {
    const Manifest& manifest = bundle.manifest;
    vocab_size_ = manifest.tokens.vocab_size;
    has_encoder_ = manifest.kind != ModelKind::decoder_only;
    has_features_ = manifest.speech && !manifest.speech->positions;
    if (manifest.assistant) hidden_size_ = manifest.assistant->hidden_size;
  }

  Status load(const Manifest& manifest, const ProgramEntry& entry);
  Result<std::span<const float>> features(std::span<const float> waveforms, int64_t rows) override;
  Status encode(const EncoderInputs& inputs) override;
  Result<Logits> decode(const StepInputs& inputs) override;
  Result<std::span<const float>> hidden() override;
  Result<Drafted> draft(const DraftInputs& inputs) override;
  Status reset() override;

 private:
  Status load_method(const char* name, std::unique_ptr<LoadedMethod>& to);
  Status load_methods();
  Result<const float*> floats_of(const LoadedMethod& loaded, size_t index, std::initializer_list<int64_t> sizes) const;
  Status execute(LoadedMethod& loaded, const char* name);
  Error refused(et::Error error) const;

  std::string path_, name_;
  Limits limits_;
  int64_t hidden_size_ = 0, vocab_size_ = 0;  // C; 0 without an assistant
  bool has_encoder_ = false, has_features_ = false;
  std::span<const float> hidden_;
  std::unique_ptr<MmapDataLoader> loader_;
  std::unique_ptr<et::Program> program_;
  Arenas arenas_;
  std::unique_ptr<LoadedMethod> features_, encode_, decode_, draft_;
};

Error ExecutorchProgram::refused(et::Error error) const {
  const std::string log = take_executorch_log();
  const std::string cause = log.empty() ? words("error ", static_cast<int>(error)) : log;
  return refusal(ErrorCode::bundle_corrupt, name_, ": ExecuTorch cannot load it (", cause, "); ", kReload);
}

Status ExecutorchProgram::load(const Manifest& manifest, const ProgramEntry& entry) {
  auto loader = MmapDataLoader::from(path_.c_str(), MmapDataLoader::MlockConfig::NoMlock);
  if (!loader.ok()) return refused(loader.error());
  loader_ = std::make_unique<MmapDataLoader>(std::move(*loader));
  auto program = et::Program::load(loader_.get(), et::Program::Verification::InternalConsistency);
  if (!program.ok()) return refused(program.error());
  program_ = std::make_unique<et::Program>(std::move(*program));
  std::vector<StatedMethod> stated;
  for (const MethodEntry& method : entry.methods) {
    auto meta = program_->method_meta(method.name.c_str());
    if (!meta.ok()) return refused(meta.error());
    arenas_.require(*meta);
    stated.push_back(stated_method(*meta));
  }
  const std::vector<std::string> faults = program_faults(manifest, entry, stated, arenas_.sizes());
  if (!faults.empty())
    return Error{ErrorCode::manifest_invalid, faults_text("manifest.json", faults, kEdited)};
  if (!arenas_.allocate())
    return refusal(ErrorCode::out_of_memory, name_, ": this machine cannot give the ", entry.planned_bytes,
                   " bytes that it plans; export with lower limits");
  return load_methods();
}

Status ExecutorchProgram::load_methods() {
  if (has_features_)
    if (Status loaded = load_method("features", features_); !loaded) return loaded;
  if (has_encoder_)
    if (Status loaded = load_method("encode", encode_); !loaded) return loaded;
  if (hidden_size_ > 0)
    if (Status loaded = load_method("draft", draft_); !loaded) return loaded;
  return load_method("decode", decode_);
}

Status ExecutorchProgram::load_method(const char* name, std::unique_ptr<LoadedMethod>& to) {
  auto loaded = std::make_unique<LoadedMethod>(arenas_.spans());
  auto method = program_->load_method(name, &loaded->manager);
  if (!method.ok()) return refused(method.error());
  loaded->method.emplace(std::move(*method));
  to = std::move(loaded);
  return {};
}

Status ExecutorchProgram::execute(LoadedMethod& loaded, const char* name) {
  const et::Error error = loaded.method->execute();
  if (error == et::Error::Ok) return {};
  const std::string log = take_executorch_log();
  return refusal(ErrorCode::program_failed, name_, ": ", name, " failed",
                 log.empty() ? words(" with error ", static_cast<int>(error)) : words(": ", log));
}

// The values of output `index`, as `sizes` say.
Result<const float*> ExecutorchProgram::floats_of(const LoadedMethod& loaded, size_t index,
                                                  std::initializer_list<int64_t> sizes) const {
  const Tensor& found = loaded.method->get_output(index).toTensor();
  const auto shape = found.sizes();
  if (found.scalar_type() == ScalarType::Float && std::equal(shape.begin(), shape.end(), sizes.begin(), sizes.end()))
    return found.const_data_ptr<float>();
  std::string wanted;
  for (const int64_t size : sizes) wanted += words(wanted.empty() ? "" : ", ", size);
  return refusal(ErrorCode::program_failed, name_, ": ", loaded.method->method_meta().name(), " returned output ", index,
                 " of another type or shape than [", wanted, "]; export the bundle again");
}

// Gives a method its arguments, in the order of its inputs.
template <size_t Count>
et::Error set_inputs(et::Method& method, std::array<ExecutorchArgument*, Count> arguments, size_t count) {
  for (size_t index = 0; index < count; ++index)
    if (const et::Error error = method.set_input(arguments[index]->value(), index); error != et::Error::Ok)
      return error;
  return et::Error::Ok;
}

Result<std::span<const float>> ExecutorchProgram::features(std::span<const float> waveforms, int64_t rows) {
  ExecutorchArgument waveform(ScalarType::Float, waveforms.data(), {rows, static_cast<int64_t>(waveforms.size()) / rows});
  if (set_inputs<1>(*features_->method, {&waveform}, 1) != et::Error::Ok)
    return refusal(ErrorCode::program_failed, name_, ": features refuses its input: ", take_executorch_log());
  if (Status done = execute(*features_, "features"); !done) return done.error();
  const Tensor& made = features_->method->get_output(0).toTensor();
  if (made.scalar_type() != ScalarType::Float)
    return refusal(ErrorCode::program_failed, name_, ": features returned another type than float32");
  return std::span(made.const_data_ptr<float>(), static_cast<size_t>(made.numel()));
}

Status ExecutorchProgram::encode(const EncoderInputs& inputs) {
  std::array<int64_t, 8> sizes{inputs.rows, inputs.width};
  size_t rank = 2;
  if (limits_.source_shape)
    for (rank = 1; rank <= limits_.source_shape->size() && rank < sizes.size(); ++rank)
      sizes[rank] = (*limits_.source_shape)[rank - 1];
  if (inputs.hop > 0) sizes[rank++] = inputs.hop;
  const bool is_text = inputs.features.empty();
  const void* data = is_text ? static_cast<const void*>(inputs.ids.data()) : inputs.features.data();
  ExecutorchArgument source(is_text ? ScalarType::Long : ScalarType::Float, data, sizes.begin(),
                  sizes.begin() + static_cast<std::ptrdiff_t>(rank));
  ExecutorchArgument lengths(ScalarType::Long, inputs.lengths.data(), {inputs.rows});
  if (set_inputs<2>(*encode_->method, {&source, &lengths}, 2) != et::Error::Ok)
    return refusal(ErrorCode::program_failed, name_, ": encode refuses its inputs: ", take_executorch_log());
  return execute(*encode_, "encode");
}

Result<Logits> ExecutorchProgram::decode(const StepInputs& inputs) {
  if (Status fits = inputs.check_limits(limits_); !fits) return fits.error();
  ExecutorchArgument tokens(ScalarType::Long, inputs.tokens.data(), {inputs.rows, inputs.width});
  ExecutorchArgument positions(ScalarType::Long, inputs.positions.data(), {inputs.rows});
  ExecutorchArgument step_lengths(ScalarType::Long, inputs.step_lengths.data(), {inputs.rows});
  ExecutorchArgument logit_rows(ScalarType::Long, inputs.logit_rows.data(), {inputs.rows, inputs.logit_count});
  ExecutorchArgument enc_lengths(ScalarType::Long, inputs.enc_lengths.data(), {inputs.rows});
  const size_t count = inputs.enc_lengths.empty() ? 4 : 5;
  if (set_inputs<5>(*decode_->method, {&tokens, &positions, &step_lengths, &logit_rows, &enc_lengths}, count) !=
      et::Error::Ok)
    return refusal(ErrorCode::program_failed, name_, ": decode refuses its inputs: ", take_executorch_log());
  hidden_ = {};
  if (Status done = execute(*decode_, "decode"); !done) return done.error();
  const Result<const float*> logits = floats_of(*decode_, 0, {inputs.rows, inputs.logit_count, vocab_size_});
  if (!logits) return logits.error();
  if (hidden_size_ > 0) {
    const Result<const float*> states = floats_of(*decode_, 1, {inputs.rows, inputs.logit_count, hidden_size_});
    if (!states) return states.error();
    hidden_ = {*states, static_cast<size_t>(inputs.rows * inputs.logit_count * hidden_size_)};
  }
  return Logits{*logits, inputs.rows, inputs.logit_count, vocab_size_};
}

Result<std::span<const float>> ExecutorchProgram::hidden() {
  if (hidden_.empty()) return refusal(ErrorCode::user_input, name_, " has no assistant, or has run no step");
  return hidden_;
}

Result<Drafted> ExecutorchProgram::draft(const DraftInputs& inputs) {
  if (!draft_) return Program::draft(inputs);
  ExecutorchArgument tokens(ScalarType::Long, inputs.tokens.data(), {inputs.rows, 1});
  ExecutorchArgument hidden(ScalarType::Float, inputs.hidden.data(), {inputs.rows, hidden_size_});
  ExecutorchArgument positions(ScalarType::Long, inputs.positions.data(), {inputs.rows});
  ExecutorchArgument step_lengths(ScalarType::Long, inputs.step_lengths.data(), {inputs.rows});
  if (set_inputs<4>(*draft_->method, {&tokens, &hidden, &positions, &step_lengths}, 4) != et::Error::Ok)
    return refusal(ErrorCode::program_failed, name_, ": draft refuses its inputs: ", take_executorch_log());
  hidden_ = {};  // methods share the memory of what they return
  if (Status done = execute(*draft_, "draft"); !done) return done.error();
  const Result<const float*> logits = floats_of(*draft_, 0, {inputs.rows, 1, vocab_size_});
  if (!logits) return logits.error();
  const Result<const float*> states = floats_of(*draft_, 1, {inputs.rows, hidden_size_});
  if (!states) return states.error();
  return Drafted{{*logits, inputs.rows, 1, vocab_size_}, {*states, static_cast<size_t>(inputs.rows * hidden_size_)}};
}

Status ExecutorchProgram::reset() {
  arenas_.clear();
  hidden_ = {};
  return load_methods();
}

// One packed copy of XNNPACK's weights for all methods of a program; without it, each method packs its own.
void share_packed_weights() {
  et::BackendOptions<1> options;
  if (options.set_option("weight_cache_enabled", true) == et::Error::Ok)
    (void)et::set_option("XnnpackBackend", options.view());
}

}  // namespace

Result<std::unique_ptr<Program>> load_executorch_program(const Bundle& bundle, const ProgramEntry& entry) {
  keep_executorch_log();
  et::runtime_init();
  share_packed_weights();
  auto program = std::make_unique<ExecutorchProgram>(bundle, entry);
  if (Status loaded = program->load(bundle.manifest, entry); !loaded) return loaded.error();
  return std::unique_ptr<Program>(std::move(program));
}

}  // namespace fixed_capacity
