// Texts that end a row: found across token boundaries, token by token, and cut from what is shown. The twin of
// runtime_shims/reference/stop_strings.py; texts are UTF-8, so that a string is found when its last byte comes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

// The bytes that a token adds to a row's text; none for special tokens.
class TextPieces {
 public:
  virtual ~TextPieces() = default;
  // `is_first`: whether the token begins the row's new text.
  virtual std::string_view bytes_of(int64_t token, bool is_first) const = 0;
};

// The stop strings of a run, and how its tokens become text.
class StopStrings {
 public:
  // `pieces` must outlive the stop strings. Refuses an empty list, and a text that no row can
  // hold: an empty one, one that is not UTF-8, one with U+FFFD.
  static Result<StopStrings> make(std::vector<std::string> texts, const TextPieces& pieces);

  const std::vector<std::string>& texts() const { return texts_; }
  const TextPieces& pieces() const { return *pieces_; }
  // Bytes of text in which a string that the next token completes can begin.
  size_t kept() const { return kept_; }

 private:
  std::vector<std::string> texts_;
  const TextPieces* pieces_ = nullptr;
  size_t kept_ = 0;
};

// One row's new text, as far back as a stop string could begin.
class StopWatch {
 public:
  void begin(const StopStrings* stops);
  // Adds a token; whether it completes a stop string.
  bool push(int64_t token);

 private:
  const StopStrings* stops_ = nullptr;
  std::string tail_;
  bool has_text_ = false;
};

// `text` up to the first stop string in it.
std::string cut_at_stops(std::string text, const std::vector<std::string>& stops);

// Lets a row's text through as it comes, except for what is a stop string or could become one.
class TextGate {
 public:
  // `stops` must outlive the gate.
  explicit TextGate(const std::vector<std::string>& stops) : stops_(&stops) {}

  // Adds text; what may be shown of it and of what was held. Nothing passes after a stop string.
  std::string push(std::string_view piece);
  // What is still held: the row ended and it became no stop string.
  std::string finish();

 private:
  const std::vector<std::string>* stops_;
  std::string held_;
  bool is_closed_ = false;
};

}  // namespace fixed_capacity
