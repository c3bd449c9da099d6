// Where a run's drafts come from: the text, a draft bundle, the draft inside the bundle, or the program's assistant.
#pragma once

#include <memory>
#include <optional>

#include "fixed_capacity/adaptive.h"
#include "fixed_capacity/bundle_reader.h"
#include "fixed_capacity/proposers.h"
#include "fixed_capacity/session.h"
#include "options.h"

namespace fixed_capacity {

// What proposes drafts, and how many are asked for. Everything lives as long as the run.
struct Drafting {
  std::optional<Bundle> bundle;
  std::optional<Session> session;
  std::unique_ptr<Proposer> proposer;
  std::unique_ptr<DraftLength> length;
  AdaptiveDrafts* adaptive = nullptr;
};

// Finds the bundle that drafts, if there is one. Refuses every option that this bundle or another option rules out, and
// a draft bundle that cannot draft for `target`. No program is loaded yet.
Status read_draft(const Bundle& target, const RunnerOptions& options, Drafting& drafting);

// Loads the draft model, and measures speeds if asked to. `rows` is the size of a batch.
Status open_drafting(const RunnerOptions& options, int64_t rows, Session& session, Drafting& drafting);

}  // namespace fixed_capacity
