// The operators once more, naively and in double precision: plain lists of positions, no ring arithmetic shared
// with the code under test beyond "position p is written at slot p mod S".
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "tensors.h"

namespace fixed_capacity::testing {

struct Options {
  std::optional<Floats> bias_table;
  int64_t bias_origin = 0;
  std::optional<int64_t> window;
  double scale = 1.0;
  std::optional<double> softcap;
  std::optional<Floats> sinks{};  // [H]
};

// A key in sight of a query: the slot it lies in and its distance (query position - key position).
struct Sight {
  int64_t slot;
  int64_t distance;
};

struct Heads {
  const Floats& query;   // [b, H, T, D]
  const Floats& keys;    // [B, K, S, D]
  const Floats& values;  // [B, K, S, Dv]
};

// out[row, token, head] = softmax over what `sees(row, token)` lists; 0 when it lists nothing.
inline Floats attend_naively(const Heads& heads, const Options& options,
                             const std::function<std::vector<Sight>(int64_t, int64_t)>& sees) {
  const Floats& query = heads.query;
  const int64_t groups = query.size(1) / heads.keys.size(1), key_dim = query.size(3), value_dim = heads.values.size(3);
  Floats out({query.size(0), query.size(2), query.size(1), value_dim});
  for (int64_t row = 0; row < query.size(0); ++row)
    for (int64_t token = 0; token < query.size(2); ++token)
      for (int64_t head = 0; head < query.size(1); ++head) {
        const std::vector<Sight> sights = sees(row, token);
        std::vector<double> scores;
        double highest = -INFINITY, total = 0.0;
        for (const Sight& sight : sights) {
          double score = 0.0;
          for (int64_t d = 0; d < key_dim; ++d)
            score += double{query.at({row, head, token, d})} * heads.keys.at({row, head / groups, sight.slot, d});
          score *= options.scale;
          if (options.softcap) score = *options.softcap * std::tanh(score / *options.softcap);
          if (options.bias_table) {
            const int64_t last = options.bias_table->size(1) - 1;
            score += options.bias_table->at({head, std::clamp<int64_t>(sight.distance + options.bias_origin, 0, last)});
          }
          scores.push_back(score);
          highest = std::max(highest, score);
        }
        if (options.sinks && !sights.empty()) {
          const double sink = options.sinks->at({head});
          highest = std::max(highest, sink);
          total = std::exp(sink - highest);
        }
        for (double& score : scores) total += score = std::exp(score - highest);
        for (int64_t column = 0; column < value_dim; ++column) {
          double sum = 0.0;
          for (size_t index = 0; index < sights.size(); ++index)
            sum += scores[index] / total * heads.values.at({row, head / groups, sights[index].slot, column});
          out.at({row, token, head, column}) = static_cast<float>(sum);
        }
      }
  return out;
}

struct Step {
  Floats query, key, value;
  std::vector<int64_t> positions, lengths;
};

// Writes the step into the caches and attends; mutates the caches.
inline Floats cached_attention_naively(const Step& step, Floats& key_cache, Floats& value_cache,
                                       const Options& options) {
  const int64_t slots = key_cache.size(2);
  const auto write = [&](const Floats& from, Floats& to, int64_t row) {
    for (int64_t head = 0; head < from.size(1); ++head)
      for (int64_t token = 0; token < step.lengths[static_cast<size_t>(row)]; ++token)
        for (int64_t d = 0; d < from.size(3); ++d)
          to.at({row, head, (step.positions[static_cast<size_t>(row)] + token) % slots, d}) =
              from.at({row, head, token, d});
  };
  for (int64_t row = 0; row < step.query.size(0); ++row) {
    write(step.key, key_cache, row);
    write(step.value, value_cache, row);
  }
  return attend_naively({step.query, key_cache, value_cache}, options, [&](int64_t row, int64_t token) {
    std::vector<Sight> sights;
    const int64_t first = step.positions[static_cast<size_t>(row)], count = step.lengths[static_cast<size_t>(row)];
    if (token >= count) return sights;
    const int64_t query = first + token, oldest = std::max<int64_t>(0, first + count - slots);
    for (int64_t position = oldest; position <= query; ++position)
      if (!options.window || query - position < *options.window)
        sights.push_back({position % slots, query - position});
    return sights;
  });
}

}  // namespace fixed_capacity::testing
