#include "fixed_capacity/acceptance.h"

#include <algorithm>

namespace fixed_capacity {

Judge::Judge(TokenChooser& chooser) : chooser_(chooser) {
  if (!chooser.settings().samples()) return;
  target_.reserve(chooser.rules().vocab_size);
  rest_.reserve(chooser.rules().vocab_size);
}

Result<Verdict> Judge::judge(const Place& place, int64_t draft, const Distribution* proposal, RandomStream& stream) {
  if (proposal == nullptr || !chooser_.settings().samples()) {
    const Result<int64_t> token = chooser_.choose(place.logits, place.history, place.prompt_length, stream);
    if (!token) return token.error();
    return Verdict{*token, *token == draft};
  }
  if (Status made = chooser_.distribution(place.logits, place.history, place.prompt_length, target_); !made)
    return made.error();
  if (stands(target_, *proposal, draft, stream.next())) return Verdict{draft, true};
  residual(target_, *proposal, rest_);
  return Verdict{rest_.take(stream.next()), false};
}

bool Judge::stands(const Distribution& target, const Distribution& proposal, int64_t draft, double u) {
  const double p = target.mass(draft), q = proposal.mass(draft);
  return u * q < p || (0.0 < q && q <= p);
}

void Judge::residual(const Distribution& target, const Distribution& proposal, Distribution& out) {
  out.ids.assign(target.ids.begin(), target.ids.end());
  out.masses.assign(target.masses.begin(), target.masses.end());
  bool any = false;
  size_t at = 0;
  for (size_t index = 0; index < out.ids.size(); ++index) {
    while (at < proposal.ids.size() && proposal.ids[at] < out.ids[index]) ++at;
    const bool is_known = at < proposal.ids.size() && proposal.ids[at] == out.ids[index];
    out.masses[index] = std::max(out.masses[index] - (is_known ? proposal.masses[at] : 0.0), 0.0);
    any = any || out.masses[index] > 0.0;
  }
  if (!any) out.masses.assign(target.masses.begin(), target.masses.end());
}

}  // namespace fixed_capacity
