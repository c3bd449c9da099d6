#include "fixed_capacity/speculative.h"

#include <algorithm>

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

Status check_budgets(Budgets budgets, size_t prompts) {
  if (!budgets.empty() && budgets.size() != prompts)
    return refusal(ErrorCode::user_input, budgets.size(), " token budgets for ", prompts,
                   " prompts; give one, or one per prompt");
  for (const std::optional<int64_t>& budget : budgets)
    if (budget && *budget < 1)
      return refusal(ErrorCode::user_input, "--max-new-tokens must be a whole number of at least 1, got ", *budget);
  return {};
}

}  // namespace

Decoder::Decoder(Session& session, Decoding how)
    : session_(session),
      how_(std::move(how)),
      chooser_(how_.settings, session.manifest().tokens),
      judge_(chooser_),
      blocks_(session.limits().max_batch, session.limits().max_logit_rows) {
  const auto most = static_cast<size_t>(session.limits().max_batch);
  rows_.reserve(most);
  for (size_t row = 0; row < most; ++row) rows_.emplace_back(session.limits(), session.manifest().tokens);
  counts_.resize(most);
  proposals_.resize(most);
  outcomes_.resize(most);
}

Status Decoder::generate(TokenRows prompts, const Source& source, Budgets budgets, int64_t first_row) {
  Watch watch;
  live_rows_ = 0;
  if (Status checked = check_budgets(budgets, prompts.size()); !checked) return checked;
  if (Status begun = session_.begin(prompts, source); !begun) return begun;
  begin_rows(prompts, budgets, first_row);
  stats_.encode_seconds += watch.lap();
  Status done = prefill(source, first_row);
  if (!done && done.error().code != ErrorCode::interrupted) return done;
  watch.lap();
  done = done ? decode() : Status();
  stats_.decode_seconds += watch.lap();
  ++stats_.requests;
  for (const DecodingRow& row : rows()) {
    stats_.new_tokens += row.new_tokens();
    stats_.decode_tokens += std::max<int64_t>(row.new_tokens() - 1, 0);
  }
  return done;
}

// Runs the proposer's prompts and the target's own, and emits each row's first token.
Status Decoder::prefill(const Source& source, int64_t first_row) {
  Watch watch;
  const ShouldStop should_stop = [this] { return wants_to_stop(); };
  if (how_.proposer != nullptr)
    if (Status begun = how_.proposer->begin(rows(), source, first_row, should_stop); !begun) return begun;
  const double proposer_seconds = watch.lap();
  const Result<Logits> logits = session_.prefill(should_stop);
  if (!logits) return logits.error();
  stats_.prefill_seconds += watch.lap();
  for (const DecodingRow& row : rows()) stats_.prefill_tokens += row.prompt_length();
  for (size_t row = 0; row < live_rows_; ++row)
    if (const auto first = settle(row, *logits, Proposal{}); !first) return first.error();
  const double first_seconds = watch.lap();
  stats_.propose_seconds += proposer_seconds;
  stats_.settle_seconds += first_seconds;
  stats_.decode_seconds += proposer_seconds + first_seconds;
  return {};
}

void Decoder::begin_rows(TokenRows prompts, Budgets budgets, int64_t first_row) {
  const std::optional<int64_t> bundle = session_.manifest().generation.max_new_tokens;
  for (size_t row = 0; row < prompts.size(); ++row) {
    std::optional<int64_t> budget = how_.settings.max_new_tokens ? how_.settings.max_new_tokens : bundle;
    if (!budgets.empty()) budget = budgets[row];
    const auto number = first_row + static_cast<int64_t>(row);
    rows_[row].begin(prompts[row], budget, RandomStream::of_target(how_.settings.seed, number), how_.stops);
  }
  live_rows_ = prompts.size();
}

Status Decoder::decode() {
  while (any_live() && !wants_to_stop())
    if (Status done = round(); !done) return done;
  return {};
}

Status Decoder::round() {
  Watch watch;
  if (Status proposed = propose(); !proposed) return proposed;
  stats_.propose_seconds += watch.lap();
  blocks_.clear();
  for (size_t row = 0; row < live_rows_; ++row) {
    const size_t drafts = rows_[row].is_live() ? proposals_[row].tokens.size() + 1 : 0;
    const std::span<int64_t> block = blocks_.add(static_cast<int64_t>(drafts));
    if (block.empty()) continue;
    block[0] = rows_[row].newest();
    std::copy(proposals_[row].tokens.begin(), proposals_[row].tokens.end(), block.begin() + 1);
  }
  const Result<Logits> logits = session_.step(blocks_.rows());
  if (!logits) return logits.error();
  stats_.verify_seconds += watch.lap();
  for (size_t row = 0; row < live_rows_; ++row) {
    outcomes_[row] = RowRound{};
    if (!rows_[row].is_live()) continue;
    const Result<RowRound> outcome = settle(row, *logits, proposals_[row]);
    if (!outcome) return outcome.error();
    outcomes_[row] = *outcome;
  }
  for (size_t row = 0; row < live_rows_; ++row) {
    const auto index = static_cast<int64_t>(row);
    if (Status back = session_.rollback(index, session_.length(index) - (rows_[row].length() - 1)); !back) return back;
  }
  if (how_.proposer != nullptr)
    if (Status done = how_.proposer->commit(rows()); !done) return done;
  const std::span<const RowRound> outcomes = std::span(outcomes_).first(live_rows_);
  stats_.record(outcomes);
  if (how_.drafts != nullptr)
    for (const RowRound& outcome : outcomes) how_.drafts->observe(outcome.evaluated(), outcome.accepted);
  if (how_.listener != nullptr) how_.listener->on_round(outcomes);
  stats_.settle_seconds += watch.lap();
  return {};
}

// Drafts of a round: as many as are asked for, the row's budget and capacity allow, and the proposer has.
Status Decoder::propose() {
  std::fill(proposals_.begin(), proposals_.end(), Proposal{});
  if (how_.proposer == nullptr) return {};
  const int64_t wanted = how_.drafts == nullptr ? 0 : how_.drafts->choose();
  stats_.fallback_rounds += wanted == 0;
  for (size_t row = 0; row < live_rows_; ++row) counts_[row] = std::min(wanted, rows_[row].most_drafts());
  const std::span<Proposal> proposals = std::span(proposals_).first(live_rows_);
  if (Status done = how_.proposer->propose(rows(), std::span(counts_).first(live_rows_), proposals); !done) return done;
  for (const Proposal& proposal : proposals) stats_.unusable_proposals += proposal.is_unusable;
  return {};
}

// Judges a row's drafts from the first on, and emits until one falls, the row ends, or all of them stand.
Result<RowRound> Decoder::settle(size_t index, const Logits& logits, const Proposal& proposal) {
  DecodingRow& row = rows_[index];
  RowRound outcome{proposal.tokens, 0, 0};
  for (size_t offset = 0; offset <= proposal.tokens.size(); ++offset) {
    const std::span<const float> found = logits.at(static_cast<int64_t>(index), static_cast<int64_t>(offset));
    const Result<Verdict> verdict = decide(row, found, proposal, offset);
    if (!verdict) return verdict.error();
    outcome.accepted += verdict->accepted;
    ++outcome.emitted;
    row.emit(verdict->token);
    if (how_.listener != nullptr) how_.listener->on_token(static_cast<int64_t>(index), verdict->token);
    if (!row.is_live() || !verdict->accepted) break;
  }
  return outcome;
}

// The token at one position of a block; behind the last draft there is none to accept.
Result<Verdict> Decoder::decide(DecodingRow& row, std::span<const float> logits, const Proposal& proposal,
                                size_t offset) {
  const Place place{logits, row.context(), row.prompt_length()};
  if (offset < proposal.tokens.size())
    return judge_.judge(place, proposal.tokens[offset], proposal.distribution(offset), row.stream());
  const Result<int64_t> token = chooser_.choose(logits, place.history, place.prompt_length, row.stream());
  if (!token) return token.error();
  return Verdict{*token, false};
}

bool Decoder::any_live() const {
  return std::any_of(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(live_rows_),
                     [](const DecodingRow& row) { return row.is_live(); });
}

}  // namespace fixed_capacity
