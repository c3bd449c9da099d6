// The operators on borrowed tensors. Each has a check, which refuses before anything is written, and a run,
// which may only follow a successful check. Shapes are those of exporter/cache/cached_attention.py.
#pragma once

#include <cstdint>
#include <optional>

#include "attention_problem.h"
#include "cache_view.h"
#include "parallel_loop.h"
#include "tensor_view.h"

namespace fixed_capacity {

struct AttentionOptions {
  std::optional<ConstFloatView> bias_table;  // [H, N]
  int64_t bias_origin = 0;
  std::optional<int64_t> window;
  double scale = 1.0;
  std::optional<double> softcap;
  std::optional<ConstFloatView> sinks{};  // [H], cached only
};

struct CachedAttentionArguments {
  ConstFloatView query, key, value;        // [b, H, T, D], [b, K, T, D], [b, K, T, Dv]
  CacheView key_cache, value_cache;        // [B, K, S, D], [B, K, S, Dv], of one type
  ConstIndexView positions, step_lengths;  // [b]
  AttentionOptions options;
};

// As CachedAttentionArguments, over caches that another layer has written.
struct SharedAttentionArguments {
  ConstFloatView query;                    // [b, H, T, D]
  ConstCacheView key_cache, value_cache;   // [B, K, S, D], [B, K, S, Dv], of one type
  ConstIndexView positions, step_lengths;  // [b]
  AttentionOptions options;
};

struct CrossAttentionArguments {
  ConstFloatView query;                   // [b, H, T, D]
  ConstCacheView key_cache, value_cache;  // [B, K, S, D], [B, K, S, Dv], of one type
  ConstIndexView lengths;                 // [b]
  AttentionOptions options;               // scale and softcap only
};

// As CachedAttentionArguments, with what an encoder left in caches of as many heads under the same softmax.
struct MergedAttentionArguments {
  CachedAttentionArguments step;                      // options: no bias, no sinks
  ConstCacheView cross_key_cache, cross_value_cache;  // [>=b, K, E, D], [>=b, K, E, Dv], of the other caches' type
  ConstIndexView cross_lengths;                       // [b]
};

struct EncoderAttentionArguments {
  ConstFloatView query, key, value;  // [b, H, E, D], [b, K, E, D], [b, K, E, Dv]
  ConstIndexView lengths;            // [b]
  AttentionOptions options;          // no window
};

struct WriteCrossArguments {
  ConstFloatView key, value;         // [b, K, E, D], [b, K, E, Dv]
  CacheView key_cache, value_cache;  // [B, K, S, D], [B, K, S, Dv], of one type
  ConstIndexView lengths;            // [b]
};

Refusal check(const CachedAttentionArguments& arguments);
Refusal check(const SharedAttentionArguments& arguments);
Refusal check(const CrossAttentionArguments& arguments);
Refusal check(const MergedAttentionArguments& arguments);
Refusal check(const EncoderAttentionArguments& arguments);
Refusal check(const WriteCrossArguments& arguments);

// `out` is [b, T, H, Dv], or [b, E, H, Dv]; for write_cross int64 [b].
void run(const CachedAttentionArguments& arguments, float* out, const ParallelLoop& loop);
void run(const SharedAttentionArguments& arguments, float* out, const ParallelLoop& loop);
void run(const CrossAttentionArguments& arguments, float* out, const ParallelLoop& loop);
void run(const MergedAttentionArguments& arguments, float* out, const ParallelLoop& loop);
void run(const EncoderAttentionArguments& arguments, float* out, const ParallelLoop& loop);
void run(const WriteCrossArguments& arguments, int64_t* out, const ParallelLoop& loop);

// The attention problem behind a call; for tests and benchmarks that choose the kernel variant themselves.
AttentionProblem problem_of(const CachedAttentionArguments& arguments, float* out);
AttentionProblem problem_of(const SharedAttentionArguments& arguments, float* out);
AttentionProblem problem_of(const CrossAttentionArguments& arguments, float* out);
AttentionProblem problem_of(const MergedAttentionArguments& arguments, float* out);
AttentionProblem problem_of(const EncoderAttentionArguments& arguments, float* out);

// Writes the live tokens of a step at their slots (the first half of cached_attention).
void write_step(const CachedAttentionArguments& arguments);

}  // namespace fixed_capacity
