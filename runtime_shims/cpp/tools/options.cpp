#include "options.h"

#include <getopt.h>

#include "fixed_capacity/words.h"
#include "numbers.h"
#include "shown.h"

namespace fixed_capacity {
namespace {

constexpr int64_t kMostThreads = 1024;

enum Option : int {
  kBundle = 1, kIds, kPrompt, kAudio, kBatch, kAudioStart, kAudioSeconds, kMaxNewTokens, kMinNewTokens, kTemperature,
  kTopK, kTopP, kMinP, kRepetitionPenalty, kNoRepeatNgram, kSeed, kStop, kSpeculate, kDraftBundle, kNumDrafts, kThreads,
  kBackend, kStream, kStats, kJson, kNoVerify, kVersion, kHelp,
};

const option kOptions[] = {
    {"bundle", required_argument, nullptr, kBundle},
    {"ids", required_argument, nullptr, kIds},
    {"prompt", required_argument, nullptr, kPrompt},
    {"audio", required_argument, nullptr, kAudio},
    {"batch", required_argument, nullptr, kBatch},
    {"audio-start", required_argument, nullptr, kAudioStart},
    {"audio-seconds", required_argument, nullptr, kAudioSeconds},
    {"max-new-tokens", required_argument, nullptr, kMaxNewTokens},
    {"min-new-tokens", required_argument, nullptr, kMinNewTokens},
    {"temperature", required_argument, nullptr, kTemperature},
    {"top-k", required_argument, nullptr, kTopK},
    {"top-p", required_argument, nullptr, kTopP},
    {"min-p", required_argument, nullptr, kMinP},
    {"repetition-penalty", required_argument, nullptr, kRepetitionPenalty},
    {"no-repeat-ngram", required_argument, nullptr, kNoRepeatNgram},
    {"seed", required_argument, nullptr, kSeed},
    {"stop", required_argument, nullptr, kStop},
    {"speculate", required_argument, nullptr, kSpeculate},
    {"draft-bundle", required_argument, nullptr, kDraftBundle},
    {"num-drafts", required_argument, nullptr, kNumDrafts},
    {"threads", required_argument, nullptr, kThreads},
    {"backend", required_argument, nullptr, kBackend},
    {"stream", no_argument, nullptr, kStream},
    {"stats", no_argument, nullptr, kStats},
    {"json", no_argument, nullptr, kJson},
    {"no-verify", no_argument, nullptr, kNoVerify},
    {"version", no_argument, nullptr, kVersion},
    {"help", no_argument, nullptr, kHelp},
    {nullptr, 0, nullptr, 0},
};

Result<Speculate> parse_speculate(const std::string& text) {
  for (const Speculate mode : {Speculate::off, Speculate::draft, Speculate::prompt_lookup, Speculate::self, Speculate::mtp,
                               Speculate::automatic})
    if (text == name_of(mode)) return mode;
  return refusal(ErrorCode::user_input, "--speculate must be one of off, prompt-lookup, draft, self, mtp, auto, got ",
                 pictured(text));
}

// Puts the value of a result where it belongs, or keeps why there is none.
template <typename Value, typename Place>
Status put(Result<Value> result, Place& place) {
  if (!result) return result.error();
  place = std::move(result).value();
  return {};
}

Status take(int option, const std::string& text, RunnerOptions& to) {
  SamplingSettings& settings = to.settings;
  switch (option) {
    case kBundle: to.bundle = text; return {};
    case kIds: to.ids.push_back(text); return {};
    case kPrompt: to.prompts.push_back(text); return {};
    case kAudio: to.audio.emplace_back(text); return {};
    case kBatch: to.batch = text; return {};
    case kAudioStart: return put(parse_number("--audio-start", text), to.cut.start);
    case kAudioSeconds: return put(parse_number("--audio-seconds", text), to.cut.seconds);
    case kMaxNewTokens: return put(parse_integer("--max-new-tokens", text, 1, kLargest), settings.max_new_tokens);
    case kMinNewTokens: return put(parse_integer("--min-new-tokens", text, 0, kLargest), settings.min_new_tokens);
    case kTemperature: return put(parse_number("--temperature", text), settings.temperature);
    case kTopK: return put(parse_integer("--top-k", text, 0, kLargest), settings.top_k);
    case kTopP: return put(parse_number("--top-p", text), settings.top_p);
    case kMinP: return put(parse_number("--min-p", text), settings.min_p);
    case kRepetitionPenalty: return put(parse_number("--repetition-penalty", text), settings.repetition_penalty);
    case kNoRepeatNgram: return put(parse_integer("--no-repeat-ngram", text, 0, kLargest), settings.no_repeat_ngram);
    case kSeed: return put(parse_unsigned("--seed", text), settings.seed);
    case kStop: to.stops.push_back(text); return {};
    case kSpeculate: return put(parse_speculate(text), to.speculate);
    case kDraftBundle: to.draft_bundle = text; return {};
    case kNumDrafts: return put(parse_integer("--num-drafts", text, 1, kLargest), to.num_drafts);
    case kThreads: return put(parse_integer("--threads", text, 1, kMostThreads), to.threads);
    case kBackend: to.backend = text; return {};
    case kStream: to.stream = true; return {};
    case kStats: to.stats = true; return {};
    case kJson: to.as_json = true; return {};
    case kNoVerify: to.check_hashes = false; return {};
    case kVersion: to.wants_version = true; return {};
    default: to.wants_help = true; return {};
  }
}

// The option that getopt_long has just read, as it was given.
std::string option_read(char** arguments) {
  const bool is_one_letter = optopt >= ' ' && optopt < 0x7F;  // there are no such options
  if (is_one_letter) return words("-", std::string(1, static_cast<char>(optopt)));
  const char* last = arguments[optind - 1];
  return one_line(last == optarg ? arguments[optind - 2] : last);
}

Status check_together(const RunnerOptions& options) {
  if (options.bundle.empty())
    return refusal(ErrorCode::user_input, "no bundle was given; give --bundle the directory that export-model wrote");
  const int kinds = !options.ids.empty() + !options.prompts.empty() + !options.audio.empty() +
                    static_cast<int>(options.batch.has_value());
  if (kinds != 1)
    return refusal(ErrorCode::user_input,
                   kinds == 0 ? "there is nothing to run" : "several kinds of input exclude each other",
                   "; give one of --ids, --prompt, --audio or --batch");
  if (options.audio.empty() && (options.cut.start != 0.0 || options.cut.seconds))
    return refusal(ErrorCode::user_input, "--audio-start and --audio-seconds cut the file given with --audio");
  return options.settings.check();
}

}  // namespace

const char* name_of(Speculate mode) {
  switch (mode) {
    case Speculate::off: return "off";
    case Speculate::draft: return "draft";
    case Speculate::prompt_lookup: return "prompt-lookup";
    case Speculate::self: return "self";
    case Speculate::mtp: return "mtp";
    case Speculate::automatic: return "auto";
  }
  return "off";
}

Result<RunnerOptions> parse_options(int count, char** arguments) {
  RunnerOptions options;
  opterr = 0;
  for (;;) {
    int index = 0;
    optopt = 0;
    const int found = getopt_long(count, arguments, ":", kOptions, &index);
    if (found == -1) break;
    const std::string given = option_read(arguments);
    if (found == ':') return refusal(ErrorCode::user_input, given, " needs a value; --help lists the options");
    const bool is_short_for_one = found != '?' && given.substr(0, given.find('=')) != words("--", kOptions[index].name);
    if (found == '?' || is_short_for_one)
      return refusal(ErrorCode::user_input, given, " is no option of bundle-runner; --help lists them");
    if (Status taken = take(found, optarg == nullptr ? "" : optarg, options); !taken) return taken.error();
  }
  if (options.wants_help || options.wants_version) return options;
  if (optind < count)
    return refusal(ErrorCode::user_input, one_line(arguments[optind]),
                   " is no option; every input has one, see --help");
  if (Status checked = check_together(options); !checked) return checked.error();
  return options;
}

const char* runner_help() {
  return R"(bundle-runner: decodes a bundle that export-model wrote, without Python

  bundle-runner --bundle BUNDLE --ids 2,651,5912,576 --max-new-tokens 64 --speculate auto --stats
  bundle-runner --bundle WHISPER --audio speech.wav

Input, one kind of it; repeat for a batch
  --ids IDS               token ids, separated by commas
  --prompt TEXT           text; ids are made by `run-model tokens`, which must be installed
  --audio FILE            WAV file of up to 384000 samples per second; for speech bundles
  --batch FILE            one row of token ids per line, run in batches of the bundle's size
  --audio-start S, --audio-seconds S   which part of a recording

How tokens are chosen; without --temperature the best one is taken
  --max-new-tokens N      most new tokens per row; default: the bundle's setting, else its capacity
  --min-new-tokens N      no end before this many
  --temperature T         draw tokens, the flatter the higher
  --top-k K, --top-p P, --min-p P      draw from the K best, from a mass of P, from P of the best one's probability
  --repetition-penalty F, --no-repeat-ngram N
  --stop TEXT             end a row when its text holds this; repeat for several
  --seed N                of all draws: the same seed, the same text. Not so with a draft model under --speculate auto,
                          where measured time decides how many drafts are asked for; --speculate draft repeats itself

Speculation: several tokens per step. Greedy text is unchanged; drawn text with a draft model keeps its distribution
  --speculate MODE        off (default), prompt-lookup, draft (the model of --draft-bundle, or that of export-model
                          --draft), self (what --draft self-int4 made), mtp (the assistant of --draft mtp, which drafts
                          over the model's own caches), auto (what pays)
  --draft-bundle BUNDLE   the model that drafts, if the bundle holds none
  --num-drafts N          drafts per round; default: all that the bundle verifies

Running
  --backend NAME          which program of the bundle; default: the first
  --threads N             default: all cores
  --no-verify             do not read all files to check their hashes; a damaged one then fails late

Output
  --stream                print tokens as they come
  --stats                 times, acceptance and memory on standard error. Load is everything before the first batch,
                          checking hashes too; decode counts the tokens behind each row's first one
  --json                  one JSON object
  --version               of this program and of bundles, and which kernels this processor runs
)";
}

}  // namespace fixed_capacity
