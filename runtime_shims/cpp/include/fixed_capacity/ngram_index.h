// After which token each n-gram of a text was last seen. The twin of NgramIndex in
// runtime_shims/reference/proposers.py, in memory that is given once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fixed_capacity {

// A text is two pieces: one that is indexed whole (encoder tokens, possibly none), then one that grows. A new token costs
// `max_ngram` entries of the table, however long the text is, and so does a question.
class NgramIndex {
 public:
  // Room for pieces of `first` and `second` tokens.
  NgramIndex(int64_t max_ngram, int64_t first, int64_t second);

  void clear();
  // The piece of its own that comes before the one that grows.
  void add_piece(std::span<const int64_t> tokens);
  // Appends to the newest piece. An n-gram is entered when the token after it comes.
  void extend(std::span<const int64_t> tokens);
  // Tokens of the newest piece.
  int64_t length() const { return static_cast<int64_t>(tokens_.size()) - piece_start_; }
  // At most `count` tokens that followed the longest tail of the newest piece that was seen before.
  std::span<const int64_t> following(int64_t count) const;

 private:
  // An n-gram ends before token `end` of all tokens; 0: the place is free.
  struct Entry {
    uint32_t end = 0;
    uint32_t size = 0;
  };

  size_t place_of(int64_t end, int64_t size) const;
  bool is_same(const Entry& entry, int64_t end, int64_t size) const;
  int64_t end_of_piece(int64_t token) const;

  int64_t max_ngram_, piece_start_ = 0;
  std::vector<int64_t> tokens_;
  std::vector<Entry> entries_;  // open addressing; a power of two, at most half full
};

}  // namespace fixed_capacity
