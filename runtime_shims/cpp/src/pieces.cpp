#include "fixed_capacity/pieces.h"

#include <algorithm>
#include <array>
#include <utility>

#include "files.h"
#include "fixed_capacity/words.h"
#include "guarded.h"
#include "shown.h"
#include "strict_json.h"
#include "utf8.h"

namespace fixed_capacity {
namespace {

constexpr std::array<std::string_view, 4> kKeys{"kind", "strip_leading_space", "pieces", "special"};
constexpr const char* kRepair = "copy the bundle again or export the model again";

Error corrupt(const Faults& faults) {
  return Error{ErrorCode::bundle_corrupt, faults_text(kPiecesName, faults, kRepair)};
}

bool has_keys(const JsonObject& object) {
  return object.size() == kKeys.size() &&
         std::all_of(kKeys.begin(), kKeys.end(), [&](std::string_view key) { return find(object, key) != nullptr; });
}

// Characters U+0000 to U+00FF as the bytes they stand for; nothing for any other text.
std::optional<std::string> bytes_of_text(const std::string& text) {
  std::string bytes;
  for (std::string_view rest = text; !rest.empty();) {
    const Character character = first_character(rest);
    if (character.bytes == 0 || character.code > 0xFF) return std::nullopt;
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(character.code)));
    rest.remove_prefix(character.bytes);
  }
  return bytes;
}

std::optional<std::string> read_list(const JsonValue& given, int64_t vocab_size, std::vector<std::string>& pieces) {
  const auto* list = given.as<JsonList>();
  if (list == nullptr || static_cast<int64_t>(list->size()) != vocab_size)
    return words("pieces: expected a list of ", vocab_size, " (tokens.vocab_size), got ", shown(given));
  pieces.reserve(list->size());
  for (size_t id = 0; id < list->size(); ++id) {
    const auto* text = (*list)[id].as<std::string>();
    const std::optional<std::string> bytes = text == nullptr ? std::nullopt : bytes_of_text(*text);
    if (!bytes) return words("pieces[", id, "]: expected characters up to U+00FF, got ", shown((*list)[id]));
    pieces.push_back(*bytes);
  }
  return std::nullopt;
}

// Empties the pieces of special tokens: their text is no part of any text.
std::optional<std::string> leave_out(const JsonValue& given, int64_t vocab_size, std::vector<std::string>& pieces) {
  const auto* list = given.as<JsonList>();
  int64_t before = -1;
  bool is_rising = true;
  for (size_t index = 0; list != nullptr && index < list->size(); ++index) {
    const auto* id = (*list)[index].as<JsonInteger>();
    if (id == nullptr || !id->value || *id->value < 0 || *id->value >= vocab_size) {
      list = nullptr;
      break;
    }
    is_rising = is_rising && *id->value > before;
    before = *id->value;
    if (static_cast<size_t>(before) < pieces.size()) pieces[static_cast<size_t>(before)].clear();
  }
  if (list == nullptr) return words("special: expected a list of ids below ", vocab_size, ", got ", shown(given));
  if (!is_rising) return std::string("special: expected rising ids");
  return std::nullopt;
}

}  // namespace

std::string_view Pieces::bytes_of(int64_t token, bool is_first) const {
  if (token < 0 || token >= static_cast<int64_t>(pieces_.size())) return {};
  std::string_view piece = pieces_[static_cast<size_t>(token)];
  if (is_first && strip_leading_space_ && piece.starts_with(' ')) piece.remove_prefix(1);
  return piece;
}

std::string Pieces::decode(TokenRow tokens) const {
  std::string text;
  for (const int64_t token : tokens) text += bytes_of(token, false);
  if (strip_leading_space_ && text.starts_with(' ')) text.erase(0, 1);
  return with_replacements(text);
}

Result<Pieces> Pieces::from_json(std::string_view text, int64_t vocab_size) {
  const std::variant<JsonValue, NotStrictJson> parsed = parse_strict_json(text);
  if (const auto* fault = std::get_if<NotStrictJson>(&parsed)) return corrupt({fault->fault});
  const auto* object = std::get<JsonValue>(parsed).as<JsonObject>();
  if (object == nullptr || !has_keys(*object))
    return corrupt({"top level: expected an object with exactly the keys kind, strip_leading_space, pieces, special"});
  Pieces result;
  Faults faults;
  const JsonValue& kind = *find(*object, "kind");
  if (kind.as<std::string>() == nullptr || *kind.as<std::string>() != "bytes")
    faults.push_back(words("kind: expected \"bytes\", got ", shown(kind)));
  const JsonValue& strip = *find(*object, "strip_leading_space");
  if (strip.as<bool>() == nullptr)
    faults.push_back(words("strip_leading_space: expected true or false, got ", shown(strip)));
  else
    result.strip_leading_space_ = *strip.as<bool>();
  if (auto fault = read_list(*find(*object, "pieces"), vocab_size, result.pieces_)) faults.push_back(*fault);
  if (auto fault = leave_out(*find(*object, "special"), vocab_size, result.pieces_)) faults.push_back(*fault);
  if (!faults.empty()) return corrupt(faults);
  return result;
}

Result<std::optional<Pieces>> read_pieces(const Bundle& bundle) {
  const auto& files = bundle.manifest.files;
  if (std::none_of(files.begin(), files.end(), [](const FileEntry& entry) { return entry.path == kPiecesName; }))
    return std::optional<Pieces>();
  return guarded("pieces.json", [&]() -> Result<std::optional<Pieces>> {
    std::string text;
    const auto take = [&text](std::span<const unsigned char> piece) {
      text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    };
    if (const std::error_code error = read_chunks(bundle.root / kPiecesName, take))
      return corrupt({words("cannot be read (", error.message(), ")")});
    Result<Pieces> pieces = Pieces::from_json(text, bundle.manifest.tokens.vocab_size);
    if (!pieces) return pieces.error();
    return std::optional<Pieces>(std::move(pieces).value());
  });
}

std::string TextStream::push(int64_t token) {
  const std::string_view piece = pieces_->bytes_of(token, !has_text_);
  has_text_ = has_text_ || !piece.empty() || !pieces_->bytes_of(token, false).empty();
  held_ += piece;
  const size_t keep = unfinished_bytes(held_);
  std::string shown = with_replacements(std::string_view(held_).substr(0, held_.size() - keep));
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string TextStream::finish() { return with_replacements(std::exchange(held_, std::string())); }

}  // namespace fixed_capacity
