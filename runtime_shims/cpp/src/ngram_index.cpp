#include "fixed_capacity/ngram_index.h"

#include <algorithm>
#include <bit>

#include "fixed_capacity/random_stream.h"

namespace fixed_capacity {

NgramIndex::NgramIndex(int64_t max_ngram, int64_t first, int64_t second) : max_ngram_(max_ngram) {
  const auto tokens = static_cast<uint64_t>(first + second);
  tokens_.reserve(tokens);
  entries_.resize(std::bit_ceil(2 * tokens * static_cast<uint64_t>(max_ngram) + 2));
}

void NgramIndex::clear() {
  tokens_.clear();
  piece_start_ = 0;
  std::fill(entries_.begin(), entries_.end(), Entry{});
}

void NgramIndex::add_piece(std::span<const int64_t> tokens) {
  extend(tokens);
  piece_start_ = static_cast<int64_t>(tokens_.size());
}

void NgramIndex::extend(std::span<const int64_t> tokens) {
  for (const int64_t token : tokens) {
    const auto end = static_cast<int64_t>(tokens_.size());
    for (int64_t size = 1; size <= std::min(max_ngram_, end - piece_start_); ++size)
      entries_[place_of(end, size)] = {static_cast<uint32_t>(end), static_cast<uint32_t>(size)};
    tokens_.push_back(token);
  }
}

std::span<const int64_t> NgramIndex::following(int64_t count) const {
  const auto end = static_cast<int64_t>(tokens_.size());
  for (int64_t size = std::min(max_ngram_, end - piece_start_); size > 0; --size) {
    const Entry& entry = entries_[place_of(end, size)];
    if (entry.end == 0) continue;
    const int64_t start = entry.end, last = std::min(start + count, end_of_piece(start));
    return std::span(tokens_).subspan(static_cast<size_t>(start), static_cast<size_t>(last - start));
  }
  return {};
}

// The place of the n-gram that ends before token `end`: where it stands, or where it would.
size_t NgramIndex::place_of(int64_t end, int64_t size) const {
  uint64_t hash = static_cast<uint64_t>(size);
  for (int64_t token = end - size; token < end; ++token)
    hash = mix(hash ^ static_cast<uint64_t>(tokens_[static_cast<size_t>(token)]));
  const size_t mask = entries_.size() - 1;
  size_t place = hash & mask;
  while (entries_[place].end != 0 && !is_same(entries_[place], end, size)) place = (place + 1) & mask;
  return place;
}

bool NgramIndex::is_same(const Entry& entry, int64_t end, int64_t size) const {
  if (entry.size != static_cast<uint64_t>(size)) return false;
  const auto first = tokens_.begin() + (static_cast<int64_t>(entry.end) - size);
  return std::equal(first, first + size, tokens_.begin() + (end - size));
}

// Tokens before the piece that grows belong to the first piece.
int64_t NgramIndex::end_of_piece(int64_t token) const {
  return token < piece_start_ ? piece_start_ : static_cast<int64_t>(tokens_.size());
}

}  // namespace fixed_capacity
