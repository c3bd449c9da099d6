// Opens a bundle directory: reads its manifest and holds every listed file against it. The twin of
// runtime_shims/contract/bundle_reader.py.
//
// A bundle that is not exactly what the exporter wrote is refused before any of it is used.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "fixed_capacity/manifest.h"
#include "fixed_capacity/result.h"

namespace fixed_capacity {

// What to do about files that are absent or changed.
inline constexpr std::string_view kRepair = "copy the bundle again or export the model again";

// A bundle whose manifest is valid and whose files are the ones it lists.
struct Bundle {
  std::filesystem::path root;
  Manifest manifest;

  // The program for `backend`, or the first one; it lives as long as the bundle. Refuses naming what there is.
  Result<const ProgramEntry*> program(std::optional<std::string_view> backend = std::nullopt) const;

  // The bundle inside that drafts for this one, or none. Refuses as `read_bundle` does.
  Result<std::optional<Bundle>> draft(bool check_hashes = true) const;

  // Where the listed file `path` lies. Refuses a file that is not listed.
  Result<std::filesystem::path> file(std::string_view path) const;
};

// The bundle in directory `path`. Presence, confinement and size of every listed file are always checked;
// `check_hashes` = false skips reading their contents. Files that are not listed are ignored and cannot be reached.
// Refuses
//     bundle_missing                    `path` is no directory or holds no manifest
//     format_too_new, manifest_invalid  see `from_json`
//     bundle_corrupt                    with every listed file that is absent, outside, or changed
Result<Bundle> read_bundle(const std::filesystem::path& path, bool check_hashes = true);

}  // namespace fixed_capacity
