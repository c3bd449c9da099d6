#include "utf8.h"

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

constexpr size_t kLongestCharacter = 4;  // bytes

// Bytes of a character by its first one, the bits of that byte that count, and the least code that needs so many.
struct Form {
  size_t bytes;
  unsigned mask;
  char32_t least;
};

std::optional<Form> form_of(unsigned first) {
  if (first < 0x80) return Form{1, 0x7F, 0};
  if (first >= 0xC2 && first < 0xE0) return Form{2, 0x1F, 0x80};
  if (first >= 0xE0 && first < 0xF0) return Form{3, 0x0F, 0x800};
  if (first >= 0xF0 && first < 0xF5) return Form{4, 0x07, 0x10000};
  return std::nullopt;
}

unsigned byte_at(std::string_view text, size_t index) { return static_cast<unsigned char>(text[index]); }

// Whether some bytes would make a character of `start`.
bool begins_character(std::string_view start) {
  const std::optional<Form> form = form_of(byte_at(start, 0));
  if (!form) return false;
  for (const char filler : {'\x80', '\xBF'}) {
    std::string whole(start);
    whole.resize(form->bytes, filler);
    if (first_character(whole).bytes > 0) return true;
  }
  return false;
}

}  // namespace

Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const std::optional<Form> form = form_of(byte_at(text, 0));
  if (!form || text.size() < form->bytes) return {};
  char32_t code = byte_at(text, 0) & form->mask;
  for (size_t index = 1; index < form->bytes; ++index) {
    const unsigned next = byte_at(text, index);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3F);
  }
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  if (code < form->least || code > 0x10FFFF || is_surrogate) return {};
  return {code, form->bytes};
}

std::optional<size_t> first_wrong_byte(std::string_view text) {
  for (size_t index = 0; index < text.size();) {
    const size_t bytes = first_character(text.substr(index)).bytes;
    if (bytes == 0) return index;
    index += bytes;
  }
  return std::nullopt;
}

Status require_utf_8(std::string_view text, std::string_view what) {
  const std::optional<size_t> wrong = first_wrong_byte(text);
  if (!wrong) return {};
  return refusal(ErrorCode::user_input, what, " is not UTF-8 text (byte ", *wrong, "); give it as UTF-8");
}

std::string with_replacements(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    size_t bytes = first_character(text).bytes;
    if (bytes > 0) {
      result += text.substr(0, bytes);
    } else {
      for (bytes = 1; bytes < text.size() && begins_character(text.substr(0, bytes + 1));) ++bytes;
      result += kReplacement;
    }
    text.remove_prefix(bytes);
  }
  return result;
}

size_t unfinished_bytes(std::string_view text) {
  for (size_t count = 1; count < kLongestCharacter && count <= text.size(); ++count) {
    const std::string_view end = text.substr(text.size() - count);
    if ((byte_at(end, 0) & 0xC0) == 0x80) continue;  // in the middle of a character
    const bool is_whole = first_character(end).bytes > 0;
    return !is_whole && begins_character(end) ? count : 0;
  }
  return 0;
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (size_t index = 0; index < text.size(); ++index) count += (byte_at(text, index) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

}  // namespace fixed_capacity
