// What a session with an assistant keeps of its steps, and how the assistant is asked.
//
// Shape legend: B rows of the request, R logit rows, V vocabulary, C width of a hidden state.
#include <algorithm>

#include "fixed_capacity/session.h"
#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

size_t index_of(int64_t number) { return static_cast<size_t>(number); }

}  // namespace

// Keeps the states behind a step's logits, and at which position of each row they begin.
Status Session::keep_hidden(const StepInputs& inputs) {
  if (hidden_size() == 0) return {};
  const Result<std::span<const float>> states = program_->hidden();
  if (!states) return states.error();
  const size_t of_row = index_of(inputs.logit_count * hidden_size());
  const size_t room = index_of(limits().max_logit_rows * hidden_size());
  for (size_t row = 0; row < index_of(inputs.rows); ++row) {
    if (inputs.step_lengths[row] == 0) continue;
    const std::span<const float> found = states->subspan(row * of_row, of_row);
    std::copy(found.begin(), found.end(), hidden_.begin() + static_cast<std::ptrdiff_t>(row * room));
    hidden_from_[row] = inputs.positions[row] + inputs.logit_rows[row * index_of(inputs.logit_count)];
  }
  return {};
}

Result<std::span<const float>> Session::last_hidden(int64_t row) const {
  const std::optional<int64_t> first = 0 <= row && row < rows_ ? hidden_from_[index_of(row)] : std::nullopt;
  const int64_t offset = first ? cursor_.length(row) - 1 - *first : -1;
  if (offset < 0 || offset >= limits().max_logit_rows || hidden_size() == 0)
    return refusal(ErrorCode::user_input, "row ", row, " has no state to draft from: run a step first");
  const size_t place = index_of((row * limits().max_logit_rows + offset) * hidden_size());
  return std::span(hidden_).subspan(place, index_of(hidden_size()));
}

Result<Drafted> Session::draft(std::span<const std::optional<int64_t>> tokens, std::span<const float> hidden) {
  if (Status alive = check_alive(); !alive) return alive.error();
  if (Status checked = check_draft(tokens, hidden); !checked) return checked.error();
  const size_t rows = tokens.size();
  for (size_t row = 0; row < rows; ++row) {
    draft_tokens_[row] = tokens[row].value_or(0);
    draft_lengths_[row] = tokens[row] ? 1 : 0;
    positions_[row] = std::max<int64_t>(cursor_.length(static_cast<int64_t>(row)) - 1, 0);
  }
  const Result<Drafted> drafted =
      program_->draft({rows_, std::span(draft_tokens_).first(rows), hidden, std::span(positions_).first(rows),
                       std::span(draft_lengths_).first(rows)});
  if (!drafted) return failed(drafted.error());
  // In memory of the session's: a program may take its inputs where it puts its results.
  std::copy(drafted->hidden.begin(), drafted->hidden.end(), next_hidden_.begin());
  return Drafted{drafted->logits, std::span<const float>(next_hidden_).first(drafted->hidden.size())};
}

Status Session::check_draft(std::span<const std::optional<int64_t>> tokens, std::span<const float> hidden) const {
  if (!manifest_.assistant)
    return refusal(ErrorCode::user_input, "the bundle has no assistant; export it with --draft mtp");
  if (static_cast<int64_t>(tokens.size()) != rows_ || static_cast<int64_t>(hidden.size()) != rows_ * hidden_size())
    return refusal(ErrorCode::user_input, tokens.size(), " tokens and states of ", hidden.size(),
                   " values for a request of ", rows_, " rows, each of ", hidden_size(), " values");
  if (rows_ == 0) return refusal(ErrorCode::user_input, "there is no request to draft for: call begin and prefill first");
  for (int64_t row = 0; row < rows_; ++row) {
    const std::optional<int64_t>& token = tokens[index_of(row)];
    if (!token) continue;
    if (cursor_.length(row) == 0)
      return refusal(ErrorCode::user_input, "row ", row, " holds no token: call prefill first");
    if (*token < 0 || *token >= manifest_.tokens.vocab_size)
      return check_tokens({&*token, 1}, manifest_.tokens.vocab_size, words("row ", row, " of the draft"));
  }
  return {};
}

}  // namespace fixed_capacity
