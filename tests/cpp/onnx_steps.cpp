// onnx-steps [--apart] BUNDLE POSITION...: steps of one token in every row of a decoder-only ONNX program, one at each
// position. Prints by how many bytes the process has grown meanwhile, and those of the smallest cache, as JSON. For tests/runner/test_onnx_memory.py.
//
// --apart is its control: caches come back in memory of their own.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fixed_capacity/onnx_program.h"
#include "onnx_method.h"
#include "onnx_names.h"

namespace fixed_capacity {
namespace {

using Json = nlohmann::json;

int64_t resident_bytes() {
  long long total = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%lld %lld", &total, &resident) != 2) std::abort();
  std::fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

// Whatever decodes: the program, or a method whose outputs are bound apart.
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual Status step(const StepInputs& inputs) = 0;
};

class WholeProgram final : public Stepper {
 public:
  explicit WholeProgram(std::unique_ptr<Program> program) : program_(std::move(program)) {}
  Status step(const StepInputs& inputs) override {
    const Result<Logits> logits = program_->decode(inputs);
    if (!logits) return logits.error();
    return {};
  }

 private:
  std::unique_ptr<Program> program_;
};

class Apart final : public Stepper {
 public:
  Apart(const Manifest& manifest, OnnxMethod method)
      : method_(std::move(method)),
        logits_(static_cast<size_t>(manifest.limits.max_batch * manifest.tokens.vocab_size)) {
    const CacheList caches = read_caches("decode", manifest.caches);
    method_.use_caches(manifest.limits.max_batch, fresh(manifest, caches, past_names(caches, manifest.kind)),
                       fresh(manifest, caches, present_names(caches, manifest.kind)));
  }

  Status step(const StepInputs& inputs) override {
    const int64_t rows = inputs.rows, words_count = static_cast<int64_t>(logits_.size()) / rows;
    const OnnxArgument arguments[] = {{inputs.tokens, {}, {rows, 1}},
                                      {inputs.positions, {}, {rows}},
                                      {inputs.step_lengths, {}, {rows}},
                                      {inputs.logit_rows, {}, {rows, 1}}};
    const OnnxResult logits{logits_.data(), {rows, 1, words_count}};
    return method_.run(arguments, {&logits, 1});
  }

 private:
  std::vector<OnnxCache> fresh(const Manifest& manifest, const CacheList& caches,
                               const std::vector<std::string>& names) {
    std::vector<OnnxCache> made;
    for (size_t index = 0; index < names.size(); ++index) {
      const CacheEntry& entry = *caches[index / 2];
      OnnxCache cache{names[index], entry.dtype, index % 2 == 0 ? key_sizes(entry) : value_sizes(entry)};
      memory_.push_back(std::make_unique_for_overwrite<char[]>(static_cast<size_t>(manifest.limits.max_batch) *
                                                               cache.row_bytes()));
      cache.memory = memory_.back().get();
      made.push_back(cache);
    }
    return made;
  }

  OnnxMethod method_;
  std::vector<std::unique_ptr<char[]>> memory_;  // nothing in it is touched before a step does
  std::vector<float> logits_;
};

Result<std::unique_ptr<Stepper>> load(const Bundle& bundle, bool apart) {
  const ProgramEntry& entry = bundle.manifest.programs[0];
  if (!apart) {
    Result<std::unique_ptr<Program>> program = load_onnx_program(bundle, entry, 1);
    if (!program) return program.error();
    return std::unique_ptr<Stepper>(std::make_unique<WholeProgram>(std::move(program).value()));
  }
  const auto environment = OnnxEnvironment::shared(1);
  if (!environment) return environment.error();
  Result<OnnxSession> session = (*environment)->open(bundle.root / entry.file, entry.file);
  if (!session) return session.error();
  OnnxMethod method(*environment, std::move(session).value(), entry.file, entry.methods[0]);
  return std::unique_ptr<Stepper>(std::make_unique<Apart>(bundle.manifest, std::move(method)));
}

// Prints what the steps at `positions` took.
Status run(const Bundle& bundle, std::span<const int64_t> positions, bool apart) {
  const Manifest& manifest = bundle.manifest;
  const int64_t rows = manifest.limits.max_batch;
  const Result<std::unique_ptr<Stepper>> stepper = load(bundle, apart);
  if (!stepper) return stepper.error();
  const auto count = static_cast<size_t>(rows);
  const std::vector<int64_t> tokens(count, 5), lengths(count, 1), logit_rows(count, 0);
  std::vector<int64_t> at(count);
  const int64_t before = resident_bytes();
  for (const int64_t position : positions) {
    std::fill(at.begin(), at.end(), position);
    if (Status done = (*stepper)->step({rows, 1, 1, tokens, at, lengths, logit_rows, {}}); !done) return done;
  }
  Json report{{"grown", resident_bytes() - before}};
  int64_t smallest = INT64_MAX;
  for (const CacheEntry& entry : manifest.caches) smallest = std::min(smallest, entry.size_bytes / 2);
  report["smallest_cache"] = smallest;
  std::printf("%s\n", report.dump().c_str());
  return {};
}

}  // namespace
}  // namespace fixed_capacity

int main(int count, char** arguments) {
  using namespace fixed_capacity;
  bool apart = false;
  std::vector<std::string> given;
  for (int index = 1; index < count; ++index) {
    apart = apart || std::strcmp(arguments[index], "--apart") == 0;
    if (arguments[index][0] != '-') given.emplace_back(arguments[index]);
  }
  if (given.size() < 2) return 2;
  std::vector<int64_t> positions;
  for (size_t index = 1; index < given.size(); ++index) positions.push_back(std::stoll(given[index]));
  Result<Bundle> bundle = read_bundle(given[0], false);
  const Status done = bundle ? run(*bundle, positions, apart) : Status(bundle.error());
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return 1;
}
