#include "fixed_capacity/draft_bundle.h"

#include <algorithm>

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

constexpr std::string_view kTokenizerFile = "tokenizer/tokenizer.json";
constexpr size_t kShownDigits = 12;

std::string list_of(const std::vector<int64_t>& numbers) {
  std::string text = "[";
  for (size_t index = 0; index < numbers.size(); ++index) text += words(index == 0 ? "" : ", ", numbers[index]);
  return text + "]";
}

std::string sorted_list(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return list_of(numbers);
}

// The beginning of the tokenizer's digest, or that there is none.
std::string tokenizer_of(const Manifest& manifest) {
  for (const FileEntry& entry : manifest.files)
    if (entry.path == kTokenizerFile) return entry.sha256.substr(0, kShownDigits);
  return "none (no tokenizer)";
}

// What the encoder takes of sound; capacities apart.
std::string sound_of(const Manifest& manifest) {
  if (const SoundPositions* positions = sound_positions(manifest))
    return words(positions->stride, " samples a position at ", manifest.speech->sampling_rate, " Hz");
  return manifest.limits.source_shape ? list_of(*manifest.limits.source_shape) : "none";
}

}  // namespace

Status check_draft_bundle(const Bundle& target, const Bundle& draft, bool is_own) {
  const Manifest &ours = target.manifest, &theirs = draft.manifest;
  std::string faults;
  const auto compare = [&](std::string_view what, std::string_view wanted, std::string_view found) {
    if (wanted != found) faults += words(faults.empty() ? "" : ", ", what, " ", found, " instead of ", wanted);
  };
  compare("kind", name_of(ours.kind), name_of(theirs.kind));
  compare("vocabulary size", words(ours.tokens.vocab_size), words(theirs.tokens.vocab_size));
  compare("end-of-sequence tokens", sorted_list(ours.tokens.eos), sorted_list(theirs.tokens.eos));
  compare("start tokens", list_of(ours.tokens.start), list_of(theirs.tokens.start));
  compare("shape of the sound", sound_of(ours), sound_of(theirs));
  if (!is_own) compare(words("SHA-256 of ", kTokenizerFile), tokenizer_of(ours), tokenizer_of(theirs));
  if (faults.empty()) return {};
  return refusal(ErrorCode::user_input, draft.root.string(), " cannot draft for ", target.root.string(), ": ", faults,
                 "; give --draft-bundle a smaller or quantized model of the same tokenizer");
}

}  // namespace fixed_capacity
