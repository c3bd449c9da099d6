// A parsed JSON text, as the manifest's reader needs it: keys in the order of the text, whole numbers of any size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fixed_capacity {

// A number written without fraction or exponent. `value` is empty when 64 bits do not hold it.
struct JsonInteger {
  std::string text;
  std::optional<int64_t> value;
};

struct JsonMember;
struct JsonValue;
using JsonList = std::vector<JsonValue>;
using JsonObject = std::vector<JsonMember>;

struct JsonNull {};

struct JsonValue {
  std::variant<JsonNull, bool, JsonInteger, double, std::string, JsonList, JsonObject> held;

  template <typename Type>
  const Type* as() const {
    return std::get_if<Type>(&held);
  }
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

inline const JsonValue* find(const JsonObject& object, std::string_view key) {
  for (const JsonMember& member : object)
    if (member.key == key) return &member.value;
  return nullptr;
}

}  // namespace fixed_capacity
