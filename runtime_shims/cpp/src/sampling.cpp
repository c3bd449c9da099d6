#include "fixed_capacity/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixed_capacity/exponential.h"
#include "fixed_capacity/token_rules.h"

namespace fixed_capacity {
namespace {

// The sum of values added one by one: the order of the additions is part of the result.
double sum_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum;
}

// Keeps the entries of a distribution that `keep(index)` says, in their order.
template <typename Keep>
void filter_entries(Distribution& out, const Keep& keep) {
  size_t kept = 0;
  for (size_t index = 0; index < out.ids.size(); ++index) {
    if (!keep(index)) continue;
    out.ids[kept] = out.ids[index];
    out.masses[kept++] = out.masses[index];
  }
  out.ids.resize(kept);
  out.masses.resize(kept);
}

}  // namespace

void Distribution::reserve(int64_t vocab_size) {
  ids.reserve(static_cast<size_t>(vocab_size));
  masses.reserve(static_cast<size_t>(vocab_size));
}

void Distribution::set_certain(int64_t token) {
  ids.assign(1, static_cast<int32_t>(token));
  masses.assign(1, 1.0);
}

double Distribution::mass(int64_t token) const {
  const auto found = std::lower_bound(ids.begin(), ids.end(), token);
  return found != ids.end() && *found == token ? masses[static_cast<size_t>(found - ids.begin())] : 0.0;
}

int64_t Distribution::take(double u) const {
  const double share = u * sum_of(masses);
  double sum = 0.0;
  size_t index = 0;
  for (; index + 1 < ids.size(); ++index) {
    sum += masses[index];
    if (sum > share) break;
  }
  return ids[index];
}

TokenChooser::TokenChooser(const SamplingSettings& settings, const TokenRules& rules)
    : settings_(settings), rules_(rules), processors_(rules.vocab_size) {
  if (!settings.samples()) return;
  own_.reserve(rules.vocab_size);
  sorted_.reserve(static_cast<size_t>(rules.vocab_size));
  heap_.reserve(static_cast<size_t>(rules.vocab_size));
  is_kept_.reserve(static_cast<size_t>(rules.vocab_size));
}

Result<int64_t> TokenChooser::choose(std::span<const float> logits, History history, int64_t prompt_length,
                                     RandomStream& stream) {
  const auto position = static_cast<int64_t>(history.size());
  if (settings_.samples()) {
    if (Status made = distribution(logits, history, prompt_length, own_); !made) return made.error();
    return own_.take(stream.next());
  }
  if (!settings_.processes() || forced_token(rules_, position))
    return greedy_token(logits, rules_, position, prompt_length);
  const auto processed = processors_.apply(logits, history, prompt_length, settings_, rules_);
  if (!processed) return processed.error();
  return best_index(*processed);
}

Status TokenChooser::distribution(std::span<const float> logits, History history, int64_t prompt_length,
                                  Distribution& out) {
  if (const auto forced = forced_token(rules_, static_cast<int64_t>(history.size()))) {
    out.set_certain(*forced);
    return {};
  }
  const auto processed = processors_.apply(logits, history, prompt_length, settings_, rules_);
  if (!processed) return processed.error();
  filter(*processed, out);
  return {};
}

void TokenChooser::filter(std::span<const float> logits, Distribution& out) {
  out.ids.clear();
  for (size_t id = 0; id < logits.size(); ++id)
    if (logits[id] > -std::numeric_limits<float>::infinity()) out.ids.push_back(static_cast<int32_t>(id));
  out.masses.assign(out.ids.size(), 0.0);
  if (settings_.top_k > 0 && settings_.top_k < static_cast<int64_t>(out.ids.size()))
    keep_best(settings_.top_k, logits, out);
  double best = -std::numeric_limits<double>::infinity();
  for (const int32_t id : out.ids) best = std::max(best, double{logits[static_cast<size_t>(id)]});
  for (size_t index = 0; index < out.ids.size(); ++index)
    out.masses[index] =
        exponential((double{logits[static_cast<size_t>(out.ids[index])]} - best) / settings_.temperature);
  keep_mass(logits, out);
  const double sum = sum_of(out.masses);
  for (double& mass : out.masses) mass /= sum;
}

// The `count` largest logits, and all that equal the last of them.
void TokenChooser::keep_best(int64_t count, std::span<const float> logits, Distribution& out) {
  sorted_.clear();
  for (const int32_t id : out.ids) sorted_.push_back(logits[static_cast<size_t>(id)]);
  const auto last = sorted_.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<float>());
  const float smallest = *last;
  filter_entries(out, [&](size_t index) { return logits[static_cast<size_t>(out.ids[index])] >= smallest; });
}

// The shortest prefix, in order of (logit descending, id ascending), that holds top_p of the mass; of it, masses of at
// least min_p.
void TokenChooser::keep_mass(std::span<const float> logits, Distribution& out) {
  if (settings_.top_p < 1.0) {
    const auto later = [&](int32_t left, int32_t right) {
      const float of_left = logits[static_cast<size_t>(out.ids[static_cast<size_t>(left)])];
      const float of_right = logits[static_cast<size_t>(out.ids[static_cast<size_t>(right)])];
      return of_left != of_right ? of_left < of_right : left > right;
    };
    heap_.resize(out.ids.size());
    for (size_t index = 0; index < heap_.size(); ++index) heap_[index] = static_cast<int32_t>(index);
    std::make_heap(heap_.begin(), heap_.end(), later);
    is_kept_.assign(out.ids.size(), 0);
    const double wanted = settings_.top_p * sum_of(out.masses);
    double sum = 0.0;
    for (auto end = heap_.end(); end != heap_.begin();) {
      std::pop_heap(heap_.begin(), end, later);
      const auto index = static_cast<size_t>(*--end);
      is_kept_[index] = 1;
      sum += out.masses[index];
      if (!(sum < wanted)) break;
    }
    filter_entries(out, [&](size_t index) { return is_kept_[index] != 0 && out.masses[index] >= settings_.min_p; });
  } else if (settings_.min_p > 0.0) {
    filter_entries(out, [&](size_t index) { return out.masses[index] >= settings_.min_p; });
  }
}

}  // namespace fixed_capacity
