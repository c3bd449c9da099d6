#include "strict_types.h"

#include <algorithm>

#include "fixed_capacity/words.h"
#include "shown.h"

namespace fixed_capacity {

void Place::refuse(std::string_view expected) const {
  faults.push_back(words(path.empty() ? "top level" : path, ": expected ", expected, or_null, ", got ", shown(value)));
}

void read(const Place& place, const IntegerType& type, int64_t& into) {
  const auto* integer = place.value.as<JsonInteger>();
  if (integer == nullptr || !integer->value || *integer->value < type.minimum)
    return place.refuse(words("an integer >= ", type.minimum));
  into = *integer->value;
}

void read(const Place& place, const FlagType&, bool& into) {
  const auto* flag = place.value.as<bool>();
  if (flag == nullptr) return place.refuse("true or false");
  into = *flag;
}

void read(const Place& place, const TextType& type, std::string& into) {
  const auto* text = place.value.as<std::string>();
  if (text == nullptr || !type.accepts(*text)) return place.refuse(type.meaning);
  into = *text;
}

std::optional<size_t> read_choice(const Place& place, const std::string_view* names, size_t count) {
  if (const auto* text = place.value.as<std::string>()) {
    const std::string_view* found = std::find(names, names + count, *text);
    if (found != names + count) return static_cast<size_t>(found - names);
  }
  std::string listed;
  for (size_t index = 0; index < count; ++index) listed += words(index == 0 ? "" : ", ", "\"", names[index], "\"");
  place.refuse(words("one of ", listed));
  return std::nullopt;
}

void read_object(const Place& place, const std::vector<Field>& fields) {
  const auto* object = place.value.as<JsonObject>();
  if (object == nullptr) return place.refuse("an object");
  std::string names;
  for (const Field& field : fields) {
    names += words(names.empty() ? "" : ", ", field.name);
    if (find(*object, field.name) == nullptr)
      place.faults.push_back(words(join(place.path, field.name), ": missing key"));
  }
  const auto is_known = [&](const JsonMember& member) {
    return std::any_of(fields.begin(), fields.end(), [&](const Field& field) { return field.name == member.key; });
  };
  for (const JsonMember& member : *object)
    if (!is_known(member))
      place.faults.push_back(words(join(place.path, member.key), ": unknown key, allowed are ", names));
  for (const Field& field : fields)
    if (const JsonValue* value = find(*object, field.name))
      field.read(Place{*value, join(place.path, field.name), place.faults});
}

}  // namespace fixed_capacity
