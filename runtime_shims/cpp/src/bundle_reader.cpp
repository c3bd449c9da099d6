#include "fixed_capacity/bundle_reader.h"

#include <algorithm>
#include <system_error>

#include "files.h"
#include "fixed_capacity/sha256.h"
#include "fixed_capacity/words.h"
#include "guarded.h"
#include "shown.h"

namespace fixed_capacity {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGive = "give the directory that export-model wrote";
constexpr size_t kShownDigits = 12;

using Fault = std::optional<std::string>;

// The manifest's paths are UTF-8 on every system.
fs::path below(const fs::path& root, std::string_view path) {
  return root / fs::path(std::u8string(path.begin(), path.end()));
}

std::string unreadable(std::string_view path, const std::error_code& error) {
  return words(path, " cannot be read (", error.message(), ")");
}

Fault place_fault(const fs::path& real_root, const FileEntry& entry) {
  const fs::path path = below(real_root, entry.path);
  if (!is_inside(real_root, path)) return words(entry.path, " is a link that leads out of the bundle");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || error == std::errc::too_many_symbolic_link_levels)
    return entry.path + " is missing";
  if (!fs::status_known(status)) return unreadable(entry.path, error);
  if (!fs::is_regular_file(status)) return entry.path + " is not a file";
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) return unreadable(entry.path, error);
  if (size == static_cast<std::uintmax_t>(entry.size_bytes)) return std::nullopt;
  return words(entry.path, " has ", size, " bytes, the manifest says ", entry.size_bytes);
}

Fault content_fault(const fs::path& real_root, const FileEntry& entry) {
  Sha256 hash;
  const auto take = [&hash](std::span<const unsigned char> piece) { hash.update(piece); };
  if (const std::error_code error = read_chunks(below(real_root, entry.path), take))
    return unreadable(entry.path, error);
  const std::string found = hash.finish();
  if (found == entry.sha256) return std::nullopt;
  return words(entry.path, " has changed: its SHA-256 is ", found.substr(0, kShownDigits), "..., the manifest says ",
               entry.sha256.substr(0, kShownDigits), "...");
}

Error refused(ErrorCode code, const fs::path& root, const Faults& faults) {
  return Error{code, faults_text(root.string(), faults, code == ErrorCode::bundle_missing ? kGive : kRepair)};
}

Result<Manifest> read_manifest(const fs::path& root, const fs::path& real_root) {
  std::error_code error;
  if (!fs::exists(root, error)) return refused(ErrorCode::bundle_missing, root, {"there is no such directory"});
  if (!fs::is_directory(root, error))
    return refused(ErrorCode::bundle_missing, root, {"a bundle is a directory, this is a file"});
  const fs::path path = root / kManifestName;
  if (!fs::is_regular_file(path, error))
    return refused(ErrorCode::bundle_missing, root, {words("there is no ", kManifestName, " in it")});
  if (!is_inside(real_root, path))
    return refused(ErrorCode::bundle_corrupt, root, {words(kManifestName, " is a link that leads out of the bundle")});
  std::string text;
  const auto take = [&text](std::span<const unsigned char> piece) { text.append(piece.begin(), piece.end()); };
  if (const std::error_code failed = read_chunks(path, take))
    return refused(ErrorCode::bundle_corrupt, root, {unreadable(kManifestName, failed)});
  return from_json(text, path.string());
}

Result<Bundle> read_and_check(const fs::path& root, bool check_hashes) {
  const fs::path real_root = real_path(root);
  Result<Manifest> manifest = read_manifest(root, real_root);
  if (!manifest) return manifest.error();
  Faults faults;
  for (const FileEntry& entry : manifest->files) {
    Fault fault = place_fault(real_root, entry);
    if (!fault && check_hashes) fault = content_fault(real_root, entry);
    if (fault) faults.push_back(*fault);
  }
  if (!faults.empty()) return refused(ErrorCode::bundle_corrupt, root, faults);
  return Bundle{root, std::move(manifest).value()};
}

template <typename Entry>
std::string joined(const std::vector<Entry>& entries, std::string Entry::*name, std::string_view between) {
  std::string text;
  for (const Entry& entry : entries) text += words(text.empty() ? "" : between, entry.*name);
  return text;
}

}  // namespace

Result<const ProgramEntry*> Bundle::program(std::optional<std::string_view> backend) const {
  return guarded("finding a program", [&]() -> Result<const ProgramEntry*> {
    for (const ProgramEntry& program : manifest.programs)
      if (!backend || program.backend == *backend) return &program;
    if (!backend) return refusal(ErrorCode::user_input, "this bundle has no program");
    std::string advice = words("give --backend ", joined(manifest.programs, &ProgramEntry::backend, " or "));
    if (*backend == "xnnpack" || *backend == "portable")  // what export-model writes programs for
      advice += words(", or export the model with --backend ", *backend);
    return refusal(ErrorCode::user_input, "this bundle has no ", pictured(*backend), " program, it has ",
                   joined(manifest.programs, &ProgramEntry::backend, ", "), "; ", advice);
  });
}

Result<std::optional<Bundle>> Bundle::draft(bool check_hashes) const {
  if (!manifest.recipe.draft || manifest.assistant) return std::optional<Bundle>();
  const Result<fs::path> path = file(kDraftManifest);
  if (!path) return path.error();
  Result<Bundle> inside = read_bundle(path->parent_path(), check_hashes);
  if (!inside) return inside.error();
  return std::optional<Bundle>(std::move(inside).value());
}

Result<fs::path> Bundle::file(std::string_view path) const {
  return guarded("finding a file", [&]() -> Result<fs::path> {
    for (const FileEntry& entry : manifest.files)
      if (entry.path == path) return below(root, path);
    return refusal(ErrorCode::user_input, "this bundle lists no file ", quoted(path), "; it lists ",
                   joined(manifest.files, &FileEntry::path, ", "));
  });
}

Result<Bundle> read_bundle(const fs::path& path, bool check_hashes) {
  return guarded("reading a bundle", [&] { return read_and_check(path, check_hashes); });
}

}  // namespace fixed_capacity
