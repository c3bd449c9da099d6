#include "fixed_capacity/stop_strings.h"

#include <algorithm>
#include <utility>

#include "fixed_capacity/words.h"
#include "utf8.h"

namespace fixed_capacity {
namespace {

constexpr size_t kLongestPiece = 1024;  // room for a token's text, so that most steps allocate nothing

// Length of the longest end of `text` that begins `stop` and is not all of it.
size_t overlap(std::string_view text, std::string_view stop) {
  size_t length = std::min(text.size(), stop.size() - 1);
  while (!text.ends_with(stop.substr(0, length))) --length;
  return length;
}

}  // namespace

Result<StopStrings> StopStrings::make(std::vector<std::string> texts, const TextPieces& pieces) {
  if (texts.empty())
    return refusal(ErrorCode::user_input, "no stop string was given; leave stop strings out, or give --stop a text");
  StopStrings result;
  for (const std::string& text : texts) {
    if (text.empty())
      return refusal(ErrorCode::user_input, "--stop must be a text of at least one character, got ''");
    if (Status checked = require_utf_8(text, "--stop"); !checked) return checked.error();
    if (text.find(kReplacement) != std::string::npos)
      return refusal(ErrorCode::user_input,
                     "--stop holds U+FFFD, which stands for bytes that are no text; leave it out");
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
  has_text_ = has_text_ || !stops_->pieces().bytes_of(token, false).empty();
  tail_ += piece;
  const bool found = std::any_of(stops_->texts().begin(), stops_->texts().end(), [&](const std::string& stop) {
    return tail_.find(stop) != std::string::npos;
  });
  if (tail_.size() > stops_->kept()) tail_.erase(0, tail_.size() - stops_->kept());
  return found;
}

std::string cut_at_stops(std::string text, const std::vector<std::string>& stops) {
  size_t end = text.size();
  for (const std::string& stop : stops) end = std::min(end, text.find(stop));
  text.resize(end);
  return text;
}

std::string TextGate::push(std::string_view piece) {
  if (is_closed_) return {};
  held_ += piece;
  std::string shown = cut_at_stops(held_, *stops_);
  is_closed_ = shown.size() < held_.size();
  size_t kept = 0;
  for (const std::string& stop : *stops_) kept = std::max(kept, is_closed_ ? 0 : overlap(held_, stop));
  held_.erase(0, held_.size() - kept);
  shown.resize(shown.size() - kept);
  return shown;
}

std::string TextGate::finish() { return std::exchange(held_, std::string()); }

}  // namespace fixed_capacity
