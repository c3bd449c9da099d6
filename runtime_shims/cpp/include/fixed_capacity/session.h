// One session: a loaded program reused for request after request, nothing allocated per step. The twin of
// runtime_shims/reference/session.py.
//
// The verbs: `begin` (check everything, run the encoder), `prefill` (run the prompts in chunks), `step` (write a few
// tokens per row, get their logits), `feed` (write any number, get the last one's), `draft` (ask the assistant), `rollback`
// (take tokens back), `end`, `reset`.
//
// Shape legend: B rows of the request, R step tokens with logits, V vocabulary, C width of a hidden state.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fixed_capacity/program.h"
#include "fixed_capacity/request.h"
#include "fixed_capacity/sequence_cursor.h"
#include "fixed_capacity/step_buffers.h"

namespace fixed_capacity {

// Asked between two calls of a program; true ends what is going on.
using ShouldStop = std::function<bool()>;

// Every check comes before the program runs: a refusal has written nothing and the session goes on. A failure of the
// program itself leaves the caches undefined; from then on every verb refuses until `reset`.
class Session {
 public:
  // Allocates step buffers, the rows' last logits [max_batch, V] and, with an assistant, their newest states. Refuses a
  // manifest whose caches do not agree.
  static Result<Session> open(Manifest manifest, std::unique_ptr<Program> program);

  const Manifest& manifest() const { return manifest_; }
  const Limits& limits() const { return manifest_.limits; }

  // B, the rows of the request in progress; 0 when there is none.
  int64_t rows() const { return rows_; }
  // Tokens a row of the request holds: the position of the next one.
  int64_t length(int64_t row) const;
  int64_t high_water(int64_t row) const;
  // Whether one step may write `count` more tokens to `row`.
  bool can_extend(int64_t row, int64_t count) const;
  // Most tokens that can be taken back from `row` now.
  int64_t max_rollback(int64_t row) const;

  // The encoder's features [B, *source_shape] of `rows` waveforms [B, N], each of as many samples as the manifest's
  // `speech` says. A request in progress goes on.
  Result<std::vector<float>> features(std::span<const float> waveforms, int64_t rows);

  // Starts a request: forgets the last one, checks the new one whole, runs the encoder if there is one. Prompts are
  // decoder token ids per row (encoder-decoder: the start tokens).
  Status begin(TokenRows prompts, const Source& source = {});

  // Runs the prompts chunk by chunk. Logits of each row's last token, [B, 1, V], valid until the next `prefill`.
  // `should_stop` is asked before each chunk: where it says so, the request is forgotten and the code is `interrupted`.
  Result<Logits> prefill(const ShouldStop& should_stop = {});

  // Writes each row's tokens. Logits [B', R, V]: R is the widest row; entry j of a row belongs to its token j, entries
  // past its width mean nothing. An empty row is idle; idle rows at the end of the batch are left out of B'. Valid until
  // the session's next call. Refuses, with nothing written, when a row cannot take its tokens.
  Result<Logits> step(TokenRows tokens_per_row);

  // Writes any number of tokens per row in chunks. Logits of each row's last one, [B, 1, V], valid until the next `feed`
  // or `prefill`; those of idle rows mean nothing. Refuses, with nothing written, when a row cannot take its tokens.
  Result<Logits> feed(TokenRows tokens_per_row);

  // C, values of a hidden state that an assistant takes; 0 without one.
  int64_t hidden_size() const { return manifest_.assistant ? manifest_.assistant->hidden_size : 0; }

  // The state behind the last token of `row`, [C]; valid until the session's next step. Refuses when the row's last step did
  // not bring it: there was none, or more was rolled back.
  Result<std::span<const float>> last_hidden(int64_t row) const;

  // What the assistant says behind one token per row: logits [B, 1, V], and the states of these tokens [B, C]. `hidden`
  // [B, C] holds the states before them; what the last call returned may be given. A row of none is idle and its results
  // mean nothing. Nothing is written. Logits are valid until the session's next call, states until its next `draft`.
  Result<Drafted> draft(std::span<const std::optional<int64_t>> tokens, std::span<const float> hidden);

  // Takes the last `count` tokens of a row back.
  Status rollback(int64_t row, int64_t count);

  // Forgets the request in progress, if there is one.
  void end() { forget_request(); }

  // Returns to the state after loading, whatever happened before.
  Status reset();

 private:
  Session(Manifest manifest, std::unique_ptr<Program> program, SequenceCursor cursor);

  Status check_alive() const;
  Status check_step(TokenRows tokens_per_row, std::optional<int64_t> widest) const;
  Status check_step_row(int64_t row, TokenRow tokens, std::optional<int64_t> widest) const;
  Status run_chunks(TokenRows tokens, int64_t width, const ShouldStop& should_stop);
  Logits last_logits() const;
  void forget_request();
  Status encode(const Source& source);
  EncoderInputs features_of(const Source& source);
  Result<Logits> decode(TokenRows tokens, bool every_token);
  Status keep_hidden(const StepInputs& inputs);
  Status check_draft(std::span<const std::optional<int64_t>> tokens, std::span<const float> hidden) const;
  Error failed(const Error& cause);

  Manifest manifest_;
  std::unique_ptr<Program> program_;
  SequenceCursor cursor_;
  StepBuffers buffers_;
  TokenTable prompts_;
  std::vector<float> last_logits_;
  std::vector<TokenRow> chunk_;
  std::vector<int64_t> positions_, enc_lengths_, live_enc_lengths_;
  std::vector<float> hidden_, next_hidden_;            // [max_batch, max_logit_rows, C], [max_batch, C]
  std::vector<std::optional<int64_t>> hidden_from_;    // [max_batch] the position that a row of `hidden_` begins at
  std::vector<int64_t> draft_tokens_, draft_lengths_;  // [max_batch]
  bool prompts_pending_ = false;
  int64_t rows_ = 0;
  std::optional<std::string> failure_;
};

}  // namespace fixed_capacity
