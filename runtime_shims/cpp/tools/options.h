// The command line of bundle-runner.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fixed_capacity/audio.h"
#include "fixed_capacity/result.h"
#include "fixed_capacity/sampling_settings.h"

namespace fixed_capacity {

enum class Speculate { off, draft, prompt_lookup, self, mtp, automatic };

const char* name_of(Speculate mode);

struct RunnerOptions {
  std::filesystem::path bundle;
  std::vector<std::string> ids, prompts;
  std::vector<std::filesystem::path> audio;
  std::optional<std::filesystem::path> batch;
  AudioCut cut;
  SamplingSettings settings;
  std::vector<std::string> stops;
  Speculate speculate = Speculate::off;
  std::optional<std::filesystem::path> draft_bundle;
  std::optional<int64_t> num_drafts, threads;
  std::optional<std::string> backend;
  bool stream = false, stats = false, as_json = false, check_hashes = true, wants_help = false,
       wants_version = false;
};

// Reads the arguments; nothing is opened. Refuses with what was given, what is allowed and what to change.
Result<RunnerOptions> parse_options(int count, char** arguments);

// What --help prints.
const char* runner_help();

}  // namespace fixed_capacity
