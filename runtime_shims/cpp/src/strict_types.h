// What a field of the manifest allows in JSON, and how its value is read. The twin of strict_types.py and the decoding
// half of strict_json.py.
//
// Faults are collected, not returned one at a time. Each names its place, what is allowed and what is there:
// `limits.max_batch: expected an integer >= 1, got "8"`. A value with a fault is left as it was.
//
//     IntegerType                  int64_t                    TextType     std::string
//     FlagType                     bool                       ChoiceType   an enum, or std::string for a closed set
//     std::vector<...>  a list of any length                  std::optional<...>  null is allowed, the key required
//     a struct with `fields_of`    an object with exactly those keys
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fixed_capacity/faults.h"
#include "json_value.h"

namespace fixed_capacity {

// A value of the text, where it stands, and where its faults go. `or_null` ends what is expected of a nullable one.
struct Place {
  const JsonValue& value;
  std::string path;
  Faults& faults;
  std::string_view or_null = "";

  void refuse(std::string_view expected) const;
};

// A whole number of at least `minimum` that 64 bits hold; never true or false, never 1.0.
struct IntegerType {
  int64_t minimum;
};

struct FlagType {};

// A text for which `accepts` holds; `meaning` says so in words.
struct TextType {
  bool (*accepts)(std::string_view text);
  const char* meaning;
};

// One of the texts in `names`; in an enum, the value of the same place.
template <size_t Count>
struct ChoiceType {
  std::array<std::string_view, Count> names;
};

struct ObjectType {};

// One key of an object and how its value is read.
struct Field {
  std::string_view name;
  std::function<void(const Place&)> read;
};

void read(const Place& place, const IntegerType& type, int64_t& into);
void read(const Place& place, const FlagType& type, bool& into);
void read(const Place& place, const TextType& type, std::string& into);
void read_object(const Place& place, const std::vector<Field>& fields);

// The place of `place`'s text among `names`; a fault and nothing when it is not there.
std::optional<size_t> read_choice(const Place& place, const std::string_view* names, size_t count);

template <size_t Count>
void read(const Place& place, const ChoiceType<Count>& type, std::string& into) {
  if (const auto index = read_choice(place, type.names.data(), Count)) into = type.names[*index];
}

template <size_t Count, typename Enum>
  requires std::is_enum_v<Enum>
void read(const Place& place, const ChoiceType<Count>& type, Enum& into) {
  if (const auto index = read_choice(place, type.names.data(), Count)) into = static_cast<Enum>(*index);
}

template <typename Struct>
  requires requires(Struct& into) { fields_of(into); }
void read(const Place& place, const ObjectType&, Struct& into) {
  read_object(place, fields_of(into));
}

template <typename Type, typename Item>
void read(const Place& place, const Type& type, std::vector<Item>& into) {
  const auto* list = place.value.as<JsonList>();
  if (list == nullptr) return place.refuse("a list");
  into.resize(list->size());
  for (size_t index = 0; index < list->size(); ++index)
    read(Place{(*list)[index], place.path + "[" + std::to_string(index) + "]", place.faults}, type, into[index]);
}

template <typename Type, typename Value>
void read(const Place& place, const Type& type, std::optional<Value>& into) {
  into.reset();
  if (place.value.as<JsonNull>() != nullptr) return;
  read(Place{place.value, place.path, place.faults, " or null"}, type, into.emplace());
}

template <typename Type, typename Value>
Field field(std::string_view name, const Type& type, Value& into) {
  return {name, [type, &into](const Place& place) { read(place, type, into); }};
}

}  // namespace fixed_capacity
