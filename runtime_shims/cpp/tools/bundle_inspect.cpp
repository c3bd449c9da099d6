// bundle-inspect: what a bundle holds and what it takes to run it, from its manifest alone.
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "exit_codes.h"
#include "fixed_capacity/bundle_reader.h"
#include "fixed_capacity/words.h"
#include "shown.h"

namespace fixed_capacity {
namespace {

constexpr const char* kHelp = R"(bundle-inspect: what a bundle holds and what it takes to run it

  bundle-inspect BUNDLE [--no-verify]

  --no-verify   do not read all files to check their hashes
)";

std::string megabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

bool are_alike(const CacheEntry& left, const CacheEntry& right) {
  return left.kind == right.kind && left.reach == right.reach && left.slots == right.slots &&
         left.kv_heads == right.kv_heads && left.key_dim == right.key_dim && left.value_dim == right.value_dim &&
         left.dtype == right.dtype;
}

// Layers whose caches are alike share a line.
void print_caches(const std::vector<CacheEntry>& entries) {
  std::printf("caches\n");
  std::vector<bool> is_done(entries.size(), false);
  for (size_t first = 0; first < entries.size(); ++first) {
    if (is_done[first]) continue;
    int64_t count = 0, bytes = 0;
    for (size_t index = first; index < entries.size(); ++index) {
      if (!are_alike(entries[first], entries[index])) continue;
      is_done[index] = true;
      ++count;
      bytes += entries[index].size_bytes;
    }
    const CacheEntry& entry = entries[first];
    std::printf("  %3" PRId64 " x %-7s reach %6" PRId64 ", %6" PRId64 " slots, %2" PRId64 " heads of %" PRId64 "+%" PRId64
                ", %s: %s\n",
                count, std::string(name_of(entry.kind)).c_str(), entry.reach, entry.slots, entry.kv_heads, entry.key_dim,
                entry.value_dim, entry.dtype.c_str(), megabytes(bytes).c_str());
  }
}

std::string sizes_of(const TensorEntry& tensor) {
  std::string text = tensor.name + " " + tensor.dtype + "[";
  for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    const Dim& dim = tensor.dims[axis];
    text += axis == 0 ? "" : ", ";
    text += dim.minimum == dim.maximum ? words(dim.maximum) : words(dim.minimum, "..", dim.maximum);
  }
  return text + "]";
}

void print_programs(const Manifest& manifest) {
  for (const ProgramEntry& program : manifest.programs) {
    std::printf("program %s (%s, attention %s%s): weights %s, planned %s\n", program.file.c_str(), program.backend.c_str(),
                program.attention.c_str(), program.operator_library_required ? ", needs our operators" : "",
                megabytes(program.weights_bytes).c_str(), megabytes(program.planned_bytes).c_str());
    for (const MethodEntry& method : program.methods) {
      std::printf("  %s(", method.name.c_str());
      for (size_t index = 0; index < method.inputs.size(); ++index)
        std::printf("%s%s", index == 0 ? "" : ", ", sizes_of(method.inputs[index]).c_str());
      std::printf(")\n");
    }
  }
}

void print_draft(const Bundle& draft, const std::string& name) {
  const MemoryPlan& memory = draft.manifest.memory;
  std::printf("draft: %s, quantization %s, weights %s, planned %s; run it with --speculate %s or auto\n", name.c_str(),
              draft.manifest.quantization.c_str(), megabytes(memory.weights_bytes).c_str(),
              megabytes(memory.planned_bytes).c_str(), name == kSelfInt4 ? "self" : "draft");
}

void print(const Bundle& bundle) {
  const Manifest& manifest = bundle.manifest;
  const Limits& limits = manifest.limits;
  std::printf("%s: %s, %s, %.1f M parameters\n", bundle.root.string().c_str(), manifest.source.model.c_str(),
              std::string(name_of(manifest.kind)).c_str(), static_cast<double>(manifest.source.parameter_count) / 1e6);
  std::printf("limits: batch %" PRId64 ", %sdecoder %" PRId64 ", step %" PRId64 ", drafts %" PRId64 "\n", limits.max_batch,
              limits.max_enc ? words("encoder ", *limits.max_enc, ", ").c_str() : "", limits.max_dec, limits.max_step,
              limits.max_draft);
  std::printf("quantization %s, %s\n", manifest.quantization.c_str(), manifest.recipe.dtype.c_str());
  if (manifest.speech)
    std::printf("sound: %s%" PRId64 " samples at %" PRId64 " per second\n",
                manifest.speech->positions ? words(manifest.speech->positions->window, " to ").c_str() : "",
                manifest.speech->samples, manifest.speech->sampling_rate);
  print_caches(manifest.caches);
  print_programs(manifest);
  if (manifest.assistant)
    std::printf("draft: an assistant in the program; run it with --speculate mtp or auto\n");
  std::printf("memory at run time: weights %s, planned %s (caches %s)\n", megabytes(manifest.memory.weights_bytes).c_str(),
              megabytes(manifest.memory.planned_bytes).c_str(), megabytes(manifest.memory.cache_bytes).c_str());
}

int inspect(int count, char** arguments) {
  std::string path;
  bool check_hashes = true;
  for (int index = 1; index < count; ++index) {
    const std::string argument = arguments[index];
    if (argument == "--help") return std::fputs(kHelp, stdout), finish_output("bundle-inspect", kDone);
    if (argument == "--no-verify")
      check_hashes = false;
    else if (path.empty() && !argument.starts_with("--"))
      path = argument;
    else
      return report_error("bundle-inspect", {ErrorCode::user_input, one_line(argument) + " is not understood; see --help"});
  }
  if (path.empty()) return report_error("bundle-inspect", {ErrorCode::user_input, "no bundle was given; see --help"});
  const Result<Bundle> bundle = read_bundle(path, check_hashes);
  if (!bundle) return report_error("bundle-inspect", bundle.error());
  const Result<std::optional<Bundle>> draft = bundle->draft(check_hashes);
  if (!draft) return report_error("bundle-inspect", draft.error());
  print(*bundle);
  if (*draft) print_draft(**draft, bundle->manifest.recipe.draft.value_or(""));
  return finish_output("bundle-inspect", kDone);
}

}  // namespace
}  // namespace fixed_capacity

int main(int count, char** arguments) {
  using namespace fixed_capacity;
  if (const int code = require_output("bundle-inspect"); code != kDone) return code;
  try {
    return inspect(count, arguments);
  } catch (const std::exception& error) {  // memory that is short outside the library
    return report_error("bundle-inspect", {ErrorCode::out_of_memory, words("this run failed: ", error.what())});
  }
}
