// bundle-runner: decodes a bundle without Python. Arguments, output and signals are here and in the files beside it;
// all else is the library.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <exception>

#include "drafting.h"
#include "exit_codes.h"
#include "fixed_capacity/loading.h"
#include "fixed_capacity/request.h"
#include "fixed_capacity/speculative.h"
#include "fixed_capacity/words.h"
#include "input.h"
#include "kernel_variants.h"
#include "output.h"
#include "shown.h"

namespace fixed_capacity {
namespace {

std::atomic<bool> decoding{false}, interrupted{false};
constexpr char kSaysInterrupted[] = "bundle-runner: interrupted\n";

// While prompts run and tokens come, the first interrupt ends the run with what there is. Any other one ends it at
// once: reading and checking files takes a while, and leaves nothing behind.
void interrupt(int) {
  if (decoding && !interrupted.exchange(true)) return;
  (void)!write(STDERR_FILENO, kSaysInterrupted, sizeof kSaysInterrupted - 1);
  _exit(kInterrupted);
}

// Only with --no-verify, when no hash has been checked: ExecuTorch's own checks let some damaged files pass.
void abandon(int) {
  constexpr char kAdvice[] =
      "bundle-runner: the program file is damaged; copy the bundle again, and run without --no-verify\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kAdvice, sizeof(kAdvice) - 1);
  _exit(kFailed);
}

// Rows that run at once: a draft model that takes fewer makes batches smaller.
int64_t batch_size(const Limits& limits, const Drafting& drafting, size_t rows) {
  const int64_t most = drafting.bundle ? drafting.bundle->manifest.limits.max_batch : limits.max_batch;
  return std::min({limits.max_batch, most, static_cast<int64_t>(rows)});
}

// One batch: its prompts and sources as the decoder takes them.
Status run_batch(std::span<const InputRow> rows, int64_t first_row, Session& session, Decoder& decoder) {
  std::vector<TokenRow> prompts, ids;
  std::vector<std::span<const float>> sounds;
  std::vector<float> waveforms, features;
  for (const InputRow& row : rows) {
    prompts.push_back(row.prompt);
    if (!row.source.empty()) ids.push_back(row.source);
    if (sound_positions(session.manifest()) != nullptr)
      sounds.emplace_back(row.waveform);
    else
      waveforms.insert(waveforms.end(), row.waveform.begin(), row.waveform.end());
  }
  if (!waveforms.empty()) {
    Result<std::vector<float>> made = session.features(waveforms, static_cast<int64_t>(rows.size()));
    if (!made) return made.error();
    features = std::move(made).value();
  }
  return decoder.generate(prompts, {ids, features, sounds}, {}, first_row);
}

Answer answer_of(const DecodingRow& row, const InputRow& input, int64_t number, const Pieces* pieces,
                 const RunnerOptions& options) {
  Answer answer{number, input.label, std::nullopt, {row.tokens().begin(), row.tokens().end()}, row.stop_reason(),
                row.prompt_length()};
  if (pieces != nullptr) answer.text = cut_at_stops(pieces->decode(row.tokens()), options.stops);
  return answer;
}

// Every row, before the first batch runs: a wrong one in a late batch must not cost the answers before it.
Status check_rows(const std::vector<InputRow>& rows, const RunnerOptions& options, const Manifest& manifest) {
  const Limits& limits = manifest.limits;
  const auto count = static_cast<int64_t>(rows.size());
  if (count > limits.max_batch && !options.batch)
    return refusal(ErrorCode::capacity_exceeded, count, " rows were given, the bundle runs at most ", limits.max_batch,
                   " at once; ", options.audio.empty() ? "use --batch, which runs in batches," : "give fewer --audio,",
                   " or export with a larger --max-batch");
  if (options.stream && count > 1 && !options.as_json)
    return refusal(ErrorCode::user_input, "--stream prints one row, ", count,
                   " were given; add --json for all of them");
  for (size_t row = 0; row < rows.size(); ++row) {
    const std::string name =
        options.batch ? words(one_line(options.batch->string()), ", ", rows[row].label) : words("row ", row);
    if (Status checked = check_prompt(rows[row].prompt, name, manifest); !checked) return checked;
    if (manifest.kind != ModelKind::text_seq2seq) continue;
    if (Status checked = check_source_ids(rows[row].source, name, manifest); !checked) return checked;
  }
  return {};
}

// The stop strings of a run; none without --stop.
Result<std::optional<StopStrings>> read_stops(const RunnerOptions& options, const Pieces* pieces) {
  if (options.stops.empty()) return std::optional<StopStrings>();
  if (pieces == nullptr)
    return refusal(ErrorCode::unsupported_setting,
                   "--stop needs the text of tokens, which this bundle's tokenizer does not give; leave it out");
  Result<StopStrings> made = StopStrings::make(options.stops, *pieces);
  if (!made) return made.error();
  return std::optional<StopStrings>(std::move(made).value());
}

// Everything that a run has loaded before the first token.
struct Loaded {
  std::vector<InputRow> rows;
  std::optional<Pieces> pieces;
  std::optional<StopStrings> stops;
  std::optional<Session> session;
  Drafting drafting;
  int64_t batch_size = 1;
  double seconds = 0.0;

  const Pieces* known_pieces() const { return pieces ? &*pieces : nullptr; }
};

Status load(const RunnerOptions& options, Loaded& to) {
  Watch watch;
  const Result<Bundle> bundle = read_bundle(options.bundle, options.check_hashes);
  if (!bundle) return bundle.error();
  if (Status read = read_draft(*bundle, options, to.drafting); !read) return read;
  Result<std::vector<InputRow>> rows = read_input(*bundle, options);
  if (!rows) return rows.error();
  to.rows = std::move(rows).value();
  const Limits& limits = bundle->manifest.limits;
  if (Status checked = check_rows(to.rows, options, bundle->manifest); !checked) return checked;
  Result<std::optional<Pieces>> pieces = read_pieces(*bundle);
  if (!pieces) return pieces.error();
  to.pieces = std::move(pieces).value();
  Result<std::optional<StopStrings>> stops = read_stops(options, to.known_pieces());
  if (!stops) return stops.error();
  to.stops = std::move(stops).value();
  Result<Session> session = open_session(*bundle, options.backend, options.threads);
  if (!session) return session.error();
  to.session.emplace(std::move(session).value());
  to.batch_size = batch_size(limits, to.drafting, to.rows.size());
  if (Status opened = open_drafting(options, to.batch_size, *to.session, to.drafting); !opened) return opened;
  to.seconds = watch.lap();
  return {};
}

// Decodes all rows, batch by batch.
Status decode(const RunnerOptions& options, Loaded& loaded, Decoder& decoder, TokenPrinter& printer,
              std::vector<Answer>& answers) {
  const auto most = static_cast<size_t>(loaded.batch_size);
  for (size_t start = 0; start < loaded.rows.size() && !printer.wants_to_stop(); start += most) {
    const std::span<const InputRow> rest = std::span(loaded.rows).subspan(start);
    const std::span<const InputRow> batch = rest.first(std::min(most, rest.size()));
    const auto first_row = static_cast<int64_t>(start);
    printer.begin_batch(first_row, static_cast<int64_t>(batch.size()));
    if (Status done = run_batch(batch, first_row, *loaded.session, decoder); !done) return done;
    printer.finish_batch();
    for (size_t row = 0; row < batch.size(); ++row)
      answers.push_back(answer_of(decoder.rows()[row], batch[row], first_row + static_cast<int64_t>(row),
                                  loaded.known_pieces(), options));
  }
  return {};
}

Status run(const RunnerOptions& options) {
  Loaded loaded;
  if (Status done = load(options, loaded); !done) return done;
  TokenPrinter printer(options, loaded.known_pieces(), interrupted);
  const Drafting& drafting = loaded.drafting;
  Decoder decoder(*loaded.session, {options.settings, drafting.proposer.get(), drafting.length.get(),
                                    loaded.stops ? &*loaded.stops : nullptr, &printer});
  std::vector<Answer> answers;
  decoding = true;
  if (Status done = decode(options, loaded, decoder, printer, answers); !done) return done;
  decoding = false;
  RunReport report{loaded.seconds, options.speculate, options.num_drafts, std::nullopt, std::nullopt, interrupted};
  if (drafting.adaptive != nullptr) {
    report.speed = drafting.adaptive->model();
    report.running_acceptance = drafting.adaptive->acceptance();
  } else if (drafting.length) {
    report.num_drafts = drafting.length->choose();
  }
  print_answers(answers, decoder.stats(), report, options);
  return {};
}

}  // namespace
}  // namespace fixed_capacity

int main(int count, char** arguments) {
  using namespace fixed_capacity;
  if (const int code = require_output("bundle-runner"); code != kDone) return code;
  const Result<RunnerOptions> options = parse_options(count, arguments);
  if (!options) return report_error("bundle-runner", options.error());
  if (options->wants_help) {
    std::fputs(runner_help(), stdout);
    return finish_output("bundle-runner", kDone);
  }
  if (options->wants_version) {
    const std::string onnxruntime = known_onnxruntime() ? words(", ONNX Runtime ", *known_onnxruntime()) : "";
    std::printf("bundle-runner " FIXED_CAPACITY_RELEASE ", bundle format %" PRId64 "%s, kernels %s\n", kFormatVersion,
                onnxruntime.c_str(), best_variant().name);
    return finish_output("bundle-runner", kDone);
  }
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  std::signal(SIGPIPE, SIG_IGN);
  if (!options->check_hashes)
    for (const int fatal : {SIGABRT, SIGBUS, SIGFPE, SIGSEGV}) std::signal(fatal, abandon);
  try {
    if (const Status done = run(*options); !done) return report_error("bundle-runner", done.error());
  } catch (const std::exception& error) {  // memory that is short outside the library
    return report_error("bundle-runner", {ErrorCode::out_of_memory, words("this run failed: ", error.what())});
  }
  if (interrupted) std::fputs(kSaysInterrupted, stderr);
  return finish_output("bundle-runner", interrupted ? kInterrupted : kDone);
}
