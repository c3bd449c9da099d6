#include "manifest_rules.h"

#include <algorithm>
#include <map>
#include <set>

#include "fixed_capacity/words.h"
#include "natural.h"
#include "onnx_names.h"
#include "rule_report.h"
#include "shown.h"

namespace fixed_capacity {
namespace {

void check_limits(const Manifest& manifest, Report& report) {
  const Limits& limits = manifest.limits;
  const ResolvedRecipe& recipe = manifest.recipe;
  const Natural logit_rows = Natural(recipe.max_draft) + 1;
  const Natural max_step = std::max(Natural(recipe.prefill_chunk), logit_rows);
  report.equal("limits.max_batch", limits.max_batch, recipe.max_batch, "recipe.max_batch");
  report.equal("limits.max_enc", limits.max_enc, recipe.max_enc, "recipe.max_enc");
  report.equal("limits.max_dec", limits.max_dec, recipe.max_dec, "recipe.max_dec");
  report.equal("limits.max_draft", limits.max_draft, recipe.max_draft, "recipe.max_draft");
  report.equal("limits.max_step", limits.max_step, max_step, "max(prefill_chunk, max_draft + 1)");
  report.equal("limits.max_logit_rows", limits.max_logit_rows, logit_rows, "max_draft + 1");
}

// The encoder's parts are there exactly when the kind has an encoder.
void check_kind(const Manifest& manifest, Report& report) {
  const Limits& limits = manifest.limits;
  const std::string_view kind = name_of(manifest.kind);
  const bool has_encoder = manifest.kind != ModelKind::decoder_only;
  const bool is_speech = manifest.kind == ModelKind::speech_seq2seq;
  const bool has_features = is_speech && sound_positions(manifest) == nullptr;
  const bool has_cross = std::any_of(manifest.caches.begin(), manifest.caches.end(),
                                     [](const CacheEntry& entry) { return entry.kind == CacheKind::cross; });
  const auto check = [&](const char* path, bool wanted, bool got) {
    if (wanted == got) return;
    report.add(path, ": expected ", wanted ? "a value" : "none", " (kind is ", kind, "), got ", got ? "one" : "none");
  };
  check("limits.max_enc", has_encoder, limits.max_enc.has_value());
  check("limits.source_shape", has_features, limits.source_shape.has_value());
  check("speech", is_speech && manifest.speech.has_value(), manifest.speech.has_value());
  check("assistant", !has_encoder && manifest.assistant.has_value(), manifest.assistant.has_value());
  check("caches of kind cross", has_encoder, has_cross);
  if (has_encoder && manifest.tokens.start.empty())
    report.add("tokens.start: expected at least one token (kind is ", kind, "), got none");
}

// Sound of any length ends where the encoder's positions do.
void check_sound(const Manifest& manifest, Report& report) {
  const SoundPositions* positions = sound_positions(manifest);
  if (positions == nullptr || !manifest.limits.max_enc) return;
  const Natural hops = Natural(*manifest.limits.max_enc - 1) + positions->least_hops();
  report.equal("speech.samples", manifest.speech->samples, hops * positions->stride, "hops of limits.max_enc positions");
}

void check_program(const std::string& path, const ProgramEntry& program, Report& report) {
  const std::string by_backend = program.backend == "onnx" ? "onnx" : "executorch";
  const bool needs_library = program.format == "executorch" && program.attention == "fused";
  report.equal(path + ".format", program.format, by_backend, words("backend ", program.backend));
  report.equal(path + ".operator_library_required", program.operator_library_required, needs_library,
               words("format ", program.format, ", attention ", program.attention));
  if (program.format != "onnx") return;
  report.equal(path + ".attention", program.attention, std::string("portable"), "format onnx");
  report.equal(path + ".file", program.file, method_path(program.file, "decode"), "format onnx");
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += words(text.empty() ? "" : ", ", name);
  return text;
}

void check_programs(const Manifest& manifest, Report& report) {
  if (manifest.programs.empty()) return report.add("programs: expected at least one, got none");
  const std::vector<std::string>& wanted = manifest.recipe.backends;
  const auto backends = texts(manifest.programs, [](const ProgramEntry& program) { return program.backend; });
  report.add_all(repeated("recipe.backends", texts(wanted, quoted)));
  report.add_all(repeated("programs, backends", texts(backends, quoted)));
  report.equal("programs, backends", joined({backends.begin(), backends.end()}), joined({wanted.begin(), wanted.end()}),
               "recipe.backends");
  for (size_t index = 0; index < manifest.programs.size(); ++index) {
    const ProgramEntry& program = manifest.programs[index];
    const std::string path = words("programs[", index, "]");
    check_program(path, program, report);
    const auto is_listed = [&](const std::string& file) {
      return std::any_of(manifest.files.begin(), manifest.files.end(),
                         [&](const FileEntry& entry) { return entry.role == "program" && entry.path == file; });
    };
    if (!is_listed(program.file))
      report.add(path, ".file: \"", program.file, "\" is not listed under files with role \"program\"");
    for (const std::string& file : other_files(program))
      if (!is_listed(file)) report.add(path, ": \"", file, "\" is not listed under files with role \"program\"");
  }
}

using Ids = std::vector<int64_t>;

void check_tokens(const Manifest& manifest, Report& report) {
  const TokenRules& tokens = manifest.tokens;
  const int64_t vocab_size = tokens.vocab_size, max_dec = manifest.limits.max_dec;
  report.equal("tokens.vocab_size", vocab_size, manifest.source.vocab_size, "source.vocab_size");
  Ids positions, forced, pad;
  for (const ForcedToken& rule : tokens.forced) {
    positions.push_back(rule.position);
    forced.push_back(rule.token);
  }
  if (tokens.pad) pad.push_back(*tokens.pad);
  const std::pair<const char*, const Ids&> lists[] = {
      {"eos", tokens.eos}, {"pad", pad}, {"start", tokens.start},
      {"forced", forced}, {"suppress", tokens.suppress}, {"begin_suppress", tokens.begin_suppress}};
  for (const auto& [name, ids] : lists)
    for (const int64_t token : ids)
      if (token >= vocab_size) report.add("tokens.", name, ": expected ids below ", vocab_size, ", got ", token);
  const auto in_decimals = [](int64_t number) { return std::to_string(number); };
  report.add_all(repeated("tokens.eos", texts(tokens.eos, in_decimals)));
  report.add_all(repeated("tokens.suppress", texts(tokens.suppress, in_decimals)));
  report.add_all(repeated("tokens.begin_suppress", texts(tokens.begin_suppress, in_decimals)));
  report.add_all(repeated("tokens.forced, positions", texts(positions, in_decimals)));
  for (const int64_t position : positions)
    if (position >= max_dec) report.add("tokens.forced: expected positions below ", max_dec, ", got ", position);
  if (tokens.start.size() > static_cast<uint64_t>(max_dec))
    report.add("tokens.start: expected at most ", max_dec, " tokens, got ", tokens.start.size());
}

// A path as a disk that ignores case takes it. Only of ASCII letters: the reader has no tables of the others.
std::string folded(std::string path) {
  for (char& letter : path)
    if ('A' <= letter && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return path;
}

// A bundle that drafts for this one is named by its manifest, exactly when the recipe asks for one. An assistant is none.
void check_draft(const Manifest& manifest, Report& report) {
  const std::optional<std::string>& draft = manifest.recipe.draft;
  const bool has_assistant = manifest.assistant.has_value(), wants_bundle = draft && !has_assistant;
  std::string listed;
  for (const FileEntry& entry : manifest.files)
    if (entry.role == "draft") listed += words(listed.empty() ? "" : ", ", entry.path);
  const std::string_view wanted = wants_bundle ? kDraftManifest : "";
  if (listed == wanted) return;
  report.add("files with role \"draft\": expected ", wants_bundle ? wanted : std::string_view("none"),
             " (recipe.draft is ", draft ? words("\"", *draft, "\"") : "null", has_assistant ? ", an assistant" : "",
             "), got ", listed.empty() ? "none" : listed);
}

// No file is listed twice, even on a disk that ignores case, and no file is also a directory.
void check_files(const Manifest& manifest, Report& report) {
  const auto paths = texts(manifest.files, [](const FileEntry& entry) { return folded(entry.path); });
  report.add_all(repeated("files, paths", texts(paths, quoted)));
  if (std::find(paths.begin(), paths.end(), kManifestName) != paths.end())
    report.add("files: manifest.json cannot list itself");
  std::set<std::string> directories;
  for (const std::string& path : paths)
    for (size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1))
      directories.insert(path.substr(0, end));
  for (const std::string& path : paths)
    if (directories.count(path) > 0) report.add("files: \"", path, "\" is also a directory");
  check_draft(manifest, report);
}

void check_source(const Manifest& manifest, Report& report) {
  const ModelSource& source = manifest.source;
  if (source.random_weights && !source.seed)
    report.add("source.seed: expected an integer (the weights are random), got null");
  if (!source.random_weights && source.seed)
    report.add("source.seed: expected null (the weights are not random), got ", *source.seed);
  report.equal("quantization", manifest.quantization, manifest.recipe.quantize, "recipe.quantize");
  report.add_all(repeated("packages, names", texts(manifest.packages, [](const PackageVersion& package) {
                            return quoted(package.name);
                          })));
}

}  // namespace

Faults repeated(std::string_view path, const std::vector<std::string>& values) {
  std::map<std::string_view, size_t> counts;
  for (const std::string& value : values) ++counts[value];
  Faults faults;
  for (const std::string& value : values) {
    size_t& count = counts[value];
    if (count > 1) faults.push_back(words(path, ": ", value, " is listed ", count, " times"));
    count = 0;  // told once, where the value stands first
  }
  return faults;
}

Faults rule_faults(const Manifest& manifest) {
  Report report;
  check_limits(manifest, report);
  check_kind(manifest, report);
  check_sound(manifest, report);
  check_caches(manifest, report);
  check_memory(manifest, report);
  check_programs(manifest, report);
  check_methods(manifest, report);
  check_tokens(manifest, report);
  check_files(manifest, report);
  check_source(manifest, report);
  return std::move(report).take();
}

}  // namespace fixed_capacity
