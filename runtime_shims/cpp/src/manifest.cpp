#include "fixed_capacity/manifest.h"

#include "fixed_capacity/words.h"
#include "guarded.h"
#include "manifest_fields.h"
#include "manifest_rules.h"
#include "strict_json.h"

namespace fixed_capacity {
namespace {

// The version that `data` names, where that is a newer one than this reader knows.
std::optional<std::string> newer_version(const JsonValue& data) {
  const auto* object = data.as<JsonObject>();
  const JsonValue* version = object == nullptr ? nullptr : find(*object, "format_version");
  const auto* number = version == nullptr ? nullptr : version->as<JsonInteger>();
  if (number == nullptr) return std::nullopt;
  const bool is_newer = number->value ? *number->value > kFormatVersion : number->text.front() != '-';
  return is_newer ? std::optional(number->text) : std::nullopt;
}

Error invalid(std::string_view where, const Faults& faults) {
  return Error{ErrorCode::manifest_invalid, faults_text(where, faults, kEdited)};
}

Result<Manifest> read_manifest(std::string_view text, std::string_view where) {
  const std::variant<JsonValue, NotStrictJson> parsed = parse_strict_json(text);
  if (const auto* wrong = std::get_if<NotStrictJson>(&parsed)) return invalid(where, {wrong->fault});
  const JsonValue& data = *std::get_if<JsonValue>(&parsed);
  if (const std::optional<std::string> version = newer_version(data)) {
    const Faults faults{words("format_version is ", *version, ", this version reads up to ", kFormatVersion)};
    return Error{ErrorCode::format_too_new,
                 faults_text(where, faults, "upgrade fixed-capacity or export the model again")};
  }
  Manifest manifest;
  Faults faults = read_manifest_fields(data, manifest);
  if (faults.empty()) faults = rule_faults(manifest);
  if (!faults.empty()) return invalid(where, faults);
  return manifest;
}

}  // namespace

const SoundPositions* sound_positions(const Manifest& manifest) {
  return manifest.speech && manifest.speech->positions ? &*manifest.speech->positions : nullptr;
}

Result<Manifest> from_json(std::string_view text, std::string_view where) {
  return guarded("reading a manifest", [&] { return read_manifest(text, where); });
}

}  // namespace fixed_capacity
