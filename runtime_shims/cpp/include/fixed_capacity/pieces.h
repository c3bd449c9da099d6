// The text of every token, for runtimes without a tokenizer: the reader of pieces.json, which
// runtime_shims/contract/pieces.py describes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fixed_capacity/bundle_reader.h"
#include "fixed_capacity/result.h"
#include "fixed_capacity/stop_strings.h"
#include "fixed_capacity/token_rows.h"

namespace fixed_capacity {

inline constexpr std::string_view kPiecesName = "pieces.json";

class Pieces final : public TextPieces {
 public:
  // The bytes that a token adds to a text: none for special ones, and without the space that a text begins with where the
  // tokenizer takes that off.
  std::string_view bytes_of(int64_t token, bool is_first) const override;

  // The text of token ids, with U+FFFD for what is no UTF-8.
  std::string decode(TokenRow tokens) const;

  // Refuses with every fault of the text, for a vocabulary of `vocab_size` tokens.
  static Result<Pieces> from_json(std::string_view text, int64_t vocab_size);

 private:
  std::vector<std::string> pieces_;  // empty for special tokens
  bool strip_leading_space_ = false;
};

// The pieces of a bundle; nothing when it lists none: they are not known for every tokenizer.
Result<std::optional<Pieces>> read_pieces(const Bundle& bundle);

// A row's text as it comes: a character whose bytes are spread over tokens waits for the last of them.
class TextStream {
 public:
  explicit TextStream(const Pieces& pieces) : pieces_(&pieces) {}

  // Adds a token; the text that is now certain, possibly none.
  std::string push(int64_t token);
  // What is still held: bytes that never became a character, as U+FFFD.
  std::string finish();

 private:
  const Pieces* pieces_;
  std::string held_;
  bool has_text_ = false;
};

}  // namespace fixed_capacity
