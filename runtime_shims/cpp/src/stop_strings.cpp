#include "fixed_capacity/stop_strings.h"

#include <algorithm>

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

constexpr size_t kLongestPiece = 1024;  // room for a token's text, so that most steps allocate nothing

}  // namespace

Result<StopStrings> StopStrings::make(std::vector<std::string> texts, const TextPieces& pieces) {
  if (texts.empty())
    return refusal(ErrorCode::user_input, "no stop string was given; leave stop strings out, or give --stop a text");
  StopStrings result;
  for (const std::string& text : texts) {
    if (text.empty()) return refusal(ErrorCode::user_input, "--stop must be a text of at least one character, got \"\"");
    result.kept_ = std::max(result.kept_, text.size() - 1);
  }
  result.texts_ = std::move(texts);
  result.pieces_ = &pieces;
  return result;
}

void StopWatch::begin(const StopStrings* stops) {
  stops_ = stops;
  has_text_ = false;
  tail_.clear();
  if (stops != nullptr) tail_.reserve(stops->kept() + kLongestPiece);
}

bool StopWatch::push(int64_t token) {
  if (stops_ == nullptr) return false;
  const std::string_view piece = stops_->pieces().bytes_of(token, !has_text_);
  has_text_ = has_text_ || !piece.empty();
  tail_ += piece;
  const bool found = std::any_of(stops_->texts().begin(), stops_->texts().end(), [&](const std::string& stop) {
    return tail_.find(stop) != std::string::npos;
  });
  if (tail_.size() > stops_->kept()) tail_.erase(0, tail_.size() - stops_->kept());
  return found;
}

}  // namespace fixed_capacity
