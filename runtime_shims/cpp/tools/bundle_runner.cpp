// bundle-runner: decodes a bundle without Python. Arguments, output and signals are here and in the files beside it; all
// else is the library.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>

#include "exit_codes.h"
#include "fixed_capacity/adaptive.h"
#include "fixed_capacity/draft_bundle.h"
#include "fixed_capacity/executorch_program.h"
#include "fixed_capacity/speculative.h"
#include "fixed_capacity/words.h"
#include "input.h"
#include "output.h"

namespace fixed_capacity {
namespace {

std::atomic<bool> interrupted{false};

void interrupt(int) { interrupted = true; }

// A session over a bundle's program.
Result<Session> open_session(const Bundle& bundle, const std::optional<std::string>& backend) {
  const Result<const ProgramEntry*> entry = bundle.program(backend);
  if (!entry) return entry.error();
  Result<std::unique_ptr<Program>> program = load_executorch_program(bundle, **entry);
  if (!program) return program.error();
  return Session::open(bundle.manifest, std::move(program).value());
}

// What proposes drafts, and how many are asked for. Everything lives as long as the run.
struct Drafting {
  std::optional<Bundle> bundle;
  std::optional<Session> session;
  std::unique_ptr<Proposer> proposer;
  std::unique_ptr<DraftLength> length;
  AdaptiveDrafts* adaptive = nullptr;
};

Status open_draft(const Bundle& target, const RunnerOptions& options, Drafting& drafting) {
  Result<Bundle> bundle = read_bundle(*options.draft_bundle, options.check_hashes);
  if (!bundle) return bundle.error();
  if (Status fits = check_draft_bundle(target, *bundle); !fits) return fits;
  drafting.bundle = std::move(bundle).value();
  Result<Session> session = open_session(*drafting.bundle, std::nullopt);
  if (!session) return session.error();
  drafting.session.emplace(std::move(session).value());
  return {};
}

Status prepare(const Bundle& bundle, const RunnerOptions& options, int64_t rows, Session& session, Drafting& drafting) {
  if (options.speculate == Speculate::off) return {};
  const int64_t most = session.limits().max_draft;
  if (options.num_drafts && *options.num_drafts > most)
    return refusal(ErrorCode::capacity_exceeded, "--num-drafts ", *options.num_drafts, " is more than the ", most,
                   " that the bundle verifies; lower it or export with a larger --max-draft");
  if (options.draft_bundle) {
    if (Status opened = open_draft(bundle, options, drafting); !opened) return opened;
    drafting.proposer = std::make_unique<DraftModel>(*drafting.session, options.settings, bundle.manifest.tokens, most);
  } else {
    drafting.proposer = std::make_unique<PromptLookup>(session.limits());
  }
  if (options.speculate != Speculate::automatic) {
    drafting.length = std::make_unique<FixedDrafts>(options.num_drafts.value_or(most));
    return {};
  }
  Result<SpeedModel> speed = measure(session, rows, drafting.session ? &*drafting.session : nullptr);
  if (!speed) return speed.error();
  auto adaptive = std::make_unique<AdaptiveDrafts>(std::move(speed).value(), most);
  drafting.adaptive = adaptive.get();
  drafting.length = std::move(adaptive);
  return {};
}

// One batch: its prompts and sources as the decoder takes them.
Status run_batch(std::span<const InputRow> rows, int64_t first_row, Session& session, Decoder& decoder) {
  std::vector<TokenRow> prompts, ids;
  std::vector<float> waveforms, features;
  for (const InputRow& row : rows) {
    prompts.push_back(row.prompt);
    if (!row.source.empty()) ids.push_back(row.source);
    waveforms.insert(waveforms.end(), row.waveform.begin(), row.waveform.end());
  }
  if (!waveforms.empty()) {
    Result<std::vector<float>> made = session.features(waveforms, static_cast<int64_t>(rows.size()));
    if (!made) return made.error();
    features = std::move(made).value();
  }
  return decoder.generate(prompts, {ids, features}, {}, first_row);
}

Answer answer_of(const DecodingRow& row, const InputRow& input, int64_t number, const Pieces* pieces,
                 const RunnerOptions& options) {
  Answer answer{number, input.label, std::nullopt, {row.tokens().begin(), row.tokens().end()}, row.stop_reason(),
                row.prompt_length()};
  if (pieces != nullptr) answer.text = cut_at_stops(pieces->decode(row.tokens()), options.stops);
  return answer;
}

Status check_rows(const std::vector<InputRow>& rows, const RunnerOptions& options, const Limits& limits) {
  const auto count = static_cast<int64_t>(rows.size());
  if (count > limits.max_batch && !options.batch)
    return refusal(ErrorCode::capacity_exceeded, count, " rows were given, the bundle runs at most ", limits.max_batch,
                   " at once; use --batch, which runs in batches, or export with a larger --max-batch");
  if (options.stream && count > 1 && !options.as_json)
    return refusal(ErrorCode::user_input, "--stream prints one row, ", count, " were given; add --json for all of them");
  return {};
}

Status run(const RunnerOptions& options) {
  Watch watch;
  if (options.threads)
    if (Status sized = set_runtime_threads(*options.threads); !sized) return sized;
  const Result<Bundle> bundle = read_bundle(options.bundle, options.check_hashes);
  if (!bundle) return bundle.error();
  const Result<std::vector<InputRow>> rows = read_input(*bundle, options);
  if (!rows) return rows.error();
  const Limits& limits = bundle->manifest.limits;
  if (Status checked = check_rows(*rows, options, limits); !checked) return checked;
  const Result<std::optional<Pieces>> read = read_pieces(*bundle);
  if (!read) return read.error();
  const Pieces* pieces = read->has_value() ? &**read : nullptr;
  std::optional<StopStrings> stops;
  if (!options.stops.empty()) {
    if (pieces == nullptr)
      return refusal(ErrorCode::unsupported_setting,
                     "--stop needs the text of tokens, which this bundle's tokenizer does not give; leave it out");
    Result<StopStrings> made = StopStrings::make(options.stops, *pieces);
    if (!made) return made.error();
    stops = std::move(made).value();
  }
  Result<Session> session = open_session(*bundle, options.backend);
  if (!session) return session.error();
  Drafting drafting;
  const int64_t batch_rows = std::min(limits.max_batch, static_cast<int64_t>(rows->size()));
  if (Status ready = prepare(*bundle, options, batch_rows, *session, drafting); !ready) return ready;
  TokenPrinter printer(options, pieces, interrupted);
  Decoder decoder(*session, {options.settings, drafting.proposer.get(), drafting.length.get(), stops ? &*stops : nullptr,
                             &printer});
  RunReport report{watch.lap(), options.speculate, std::nullopt, std::nullopt, false};
  std::vector<Answer> answers;
  for (size_t start = 0; start < rows->size() && !interrupted; start += static_cast<size_t>(limits.max_batch)) {
    const size_t count = std::min(static_cast<size_t>(limits.max_batch), rows->size() - start);
    printer.begin_batch(static_cast<int64_t>(start), static_cast<int64_t>(count));
    const std::span<const InputRow> batch = std::span(*rows).subspan(start, count);
    if (Status done = run_batch(batch, static_cast<int64_t>(start), *session, decoder); !done) return done;
    printer.finish_batch();
    for (size_t row = 0; row < count; ++row)
      answers.push_back(answer_of(decoder.rows()[row], batch[row], static_cast<int64_t>(start + row), pieces, options));
  }
  report.interrupted = interrupted;
  if (drafting.adaptive != nullptr) {
    report.speed = drafting.adaptive->model();
    report.acceptance = drafting.adaptive->acceptance();
  }
  print_answers(answers, decoder.stats(), report, options);
  return {};
}

}  // namespace
}  // namespace fixed_capacity

int main(int count, char** arguments) {
  using namespace fixed_capacity;
  const Result<RunnerOptions> options = parse_options(count, arguments);
  if (!options) return report_error("bundle-runner", options.error());
  if (options->wants_help) {
    std::fputs(runner_help(), stdout);
    return finish_output("bundle-runner", kDone);
  }
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    if (const Status done = run(*options); !done) return report_error("bundle-runner", done.error());
  } catch (const std::exception& error) {  // memory that is short outside the library
    return report_error("bundle-runner", {ErrorCode::out_of_memory, words("this run failed: ", error.what())});
  }
  return finish_output("bundle-runner", interrupted ? kInterrupted : kDone);
}
