#include "fixed_capacity/sampling_settings.h"

#include <cmath>
#include <limits>

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

class Faults {
 public:
  template <typename... Parts>
  void add(const Parts&... parts) {
    if (!text_.empty()) text_ += "; ";
    text_ += words(parts...);
  }

  void number(const char* name, double value, const char* allowed, bool is_allowed) {
    if (!std::isfinite(value) || !is_allowed) add(name, " must be a number, ", allowed, ", got ", value);
  }

  void integer(const char* name, int64_t value, int64_t least) {
    if (value < least) add(name, " must be a whole number in ", least, "..", kLargest, ", got ", value);
  }

  Status status() const { return text_.empty() ? Status() : Error{ErrorCode::user_input, text_}; }

 private:
  std::string text_;
};

}  // namespace

Status SamplingSettings::check() const {
  Faults faults;
  faults.number("--temperature", temperature, "0 (the best token) or more", temperature >= 0.0);
  faults.number("--top-p", top_p, "above 0, at most 1 (off)", top_p > 0.0 && top_p <= 1.0);
  faults.number("--min-p", min_p, "0 (off) to 1", min_p >= 0.0 && min_p <= 1.0);
  faults.number("--repetition-penalty", repetition_penalty, "above 0; 1 is off", repetition_penalty > 0.0);
  faults.integer("--top-k", top_k, 0);
  faults.integer("--no-repeat-ngram", no_repeat_ngram, 0);
  faults.integer("--min-new-tokens", min_new_tokens, 0);
  if (max_new_tokens) faults.integer("--max-new-tokens", *max_new_tokens, 1);
  std::string used;
  for (const auto& [name, is_used] :
       {std::pair{"--top-k", top_k != 0}, std::pair{"--top-p", top_p != 1.0}, std::pair{"--min-p", min_p != 0.0}})
    if (is_used) used += words(used.empty() ? "" : ", ", name);
  if (temperature == 0.0 && !used.empty())
    faults.add(used, " without --temperature changes nothing: the best token is taken; give it too");
  if (max_new_tokens && *max_new_tokens >= 1 && *max_new_tokens < min_new_tokens)
    faults.add("--min-new-tokens ", min_new_tokens, " is more than --max-new-tokens ", *max_new_tokens);
  return faults.status();
}

}  // namespace fixed_capacity
