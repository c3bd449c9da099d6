#include "operators.h"

#include <algorithm>
#include <cstring>

#include "attend.h"

namespace fixed_capacity {
namespace {

void set_heads(AttentionProblem& problem, const ConstFloatView& query, int64_t kv_heads, int64_t slots) {
  problem.batch = query.sizes[0];
  problem.query_heads = query.sizes[1];
  problem.tokens = query.sizes[2];
  problem.key_dim = query.sizes[3];
  problem.kv_heads = kv_heads;
  problem.slots = slots;
  problem.query = query.data;
}

void set_options(AttentionProblem& problem, const AttentionOptions& options) {
  problem.window = options.window.value_or(kNoWindow);
  problem.scale = static_cast<float>(options.scale);
  if (options.softcap) problem.softcap = static_cast<float>(*options.softcap);
  if (options.bias_table)
    problem.bias = RelativeBias{options.bias_table->data, options.bias_table->sizes[1], options.bias_origin};
  if (options.sinks) problem.sinks = options.sinks->data;
}

void attend_on(const AttentionProblem& problem, const ParallelLoop& loop) {
  attend(problem, best_variant(), loop.threads,
         [&](int64_t count, const auto& body) { run_parallel(loop, count, body); });
}

// Writes `count` positions to a cache, of all rows and heads laid end to end, from position `index` on.
void write_positions(const CacheView& to, int64_t index, const float* from, int64_t count) {
  if (count <= 0) return;
  const int64_t dim = to.sizes[3];
  char* place = static_cast<char*>(to.data) + index * position_bytes(to.type, dim);
  switch (to.type) {
    case CacheType::float32:
      std::memcpy(place, from, sizeof(float) * static_cast<size_t>(count * dim));
      break;
    case CacheType::float16:
      best_variant().to_half(from, reinterpret_cast<Half*>(place), count * dim);
      break;
    case CacheType::int8:
      best_variant().to_bytes(from, reinterpret_cast<CacheByte*>(place), count, dim);
      break;
  }
}

// Writes the first `count` positions of one head into its ring, from the slot of `position` on.
void write_head(const ConstFloatView& from, const CacheView& to, int64_t row, int64_t head, int64_t position,
                int64_t count) {
  const int64_t heads = from.sizes[1], dim = from.sizes[3], slots = to.sizes[2];
  const float* source = from.data + (row * heads + head) * from.sizes[2] * dim;
  const int64_t ring = (row * heads + head) * slots;
  const int64_t slot = slot_of(position, slots);
  const int64_t before_wrap = std::min(count, slots - slot);
  write_positions(to, ring + slot, source, before_wrap);
  write_positions(to, ring, source + before_wrap * dim, count - before_wrap);
}

}  // namespace

AttentionProblem problem_of(const CachedAttentionArguments& arguments, float* out) {
  return problem_of(SharedAttentionArguments{arguments.query, read_only(arguments.key_cache),
                                             read_only(arguments.value_cache), arguments.positions,
                                             arguments.step_lengths, arguments.options},
                    out);
}

AttentionProblem problem_of(const SharedAttentionArguments& arguments, float* out) {
  AttentionProblem problem;
  problem.kind = AttentionKind::cached;
  set_heads(problem, arguments.query, arguments.key_cache.sizes[1], arguments.key_cache.sizes[2]);
  problem.type = arguments.key_cache.type;
  problem.keys = arguments.key_cache.data;
  problem.values = arguments.value_cache.data;
  problem.value_dim = arguments.value_cache.sizes[3];
  problem.positions = arguments.positions.data;
  problem.lengths = arguments.step_lengths.data;
  problem.out = out;
  set_options(problem, arguments.options);
  return problem;
}

AttentionProblem problem_of(const CrossAttentionArguments& arguments, float* out) {
  AttentionProblem problem;
  problem.kind = AttentionKind::cross;
  set_heads(problem, arguments.query, arguments.key_cache.sizes[1], arguments.key_cache.sizes[2]);
  problem.type = arguments.key_cache.type;
  problem.keys = arguments.key_cache.data;
  problem.values = arguments.value_cache.data;
  problem.value_dim = arguments.value_cache.sizes[3];
  problem.lengths = arguments.lengths.data;
  problem.out = out;
  set_options(problem, arguments.options);
  return problem;
}

AttentionProblem problem_of(const MergedAttentionArguments& arguments, float* out) {
  AttentionProblem problem = problem_of(arguments.step, out);
  problem.beside = EncoderKeys{arguments.cross_key_cache.data, arguments.cross_value_cache.data,
                               arguments.cross_key_cache.sizes[2], arguments.cross_lengths.data};
  return problem;
}

AttentionProblem problem_of(const EncoderAttentionArguments& arguments, float* out) {
  AttentionProblem problem;
  problem.kind = AttentionKind::encoder;
  set_heads(problem, arguments.query, arguments.key.sizes[1], arguments.key.sizes[2]);
  problem.keys = arguments.key.data;
  problem.values = arguments.value.data;
  problem.value_dim = arguments.value.sizes[3];
  problem.lengths = arguments.lengths.data;
  problem.out = out;
  set_options(problem, arguments.options);
  return problem;
}

void write_step(const CachedAttentionArguments& arguments) {
  for (int64_t row = 0; row < arguments.key.sizes[0]; ++row)
    for (int64_t head = 0; head < arguments.key.sizes[1]; ++head) {
      const int64_t position = arguments.positions.data[row], count = arguments.step_lengths.data[row];
      write_head(arguments.key, arguments.key_cache, row, head, position, count);
      write_head(arguments.value, arguments.value_cache, row, head, position, count);
    }
}

void run(const CachedAttentionArguments& arguments, float* out, const ParallelLoop& loop) {
  write_step(arguments);
  attend_on(problem_of(arguments, out), loop);
}

void run(const SharedAttentionArguments& arguments, float* out, const ParallelLoop& loop) {
  attend_on(problem_of(arguments, out), loop);
}

void run(const CrossAttentionArguments& arguments, float* out, const ParallelLoop& loop) {
  attend_on(problem_of(arguments, out), loop);
}

void run(const MergedAttentionArguments& arguments, float* out, const ParallelLoop& loop) {
  write_step(arguments.step);
  attend_on(problem_of(arguments, out), loop);
}

void run(const EncoderAttentionArguments& arguments, float* out, const ParallelLoop& loop) {
  attend_on(problem_of(arguments, out), loop);
}

void run(const WriteCrossArguments& arguments, int64_t* out, const ParallelLoop& loop) {
  const int64_t heads = arguments.key.sizes[1], rows = arguments.key.sizes[0];
  const auto body = [](const void* context, int64_t begin, int64_t end) {
    const auto& call = *static_cast<const WriteCrossArguments*>(context);
    for (int64_t index = begin; index < end; ++index) {
      const int64_t row = index / call.key.sizes[1], head = index % call.key.sizes[1];
      write_head(call.key, call.key_cache, row, head, 0, call.lengths.data[row]);
      write_head(call.value, call.value_cache, row, head, 0, call.lengths.data[row]);
    }
  };
  loop.run(rows * heads, body, &arguments);
  for (int64_t row = 0; row < rows; ++row) out[row] = arguments.lengths.data[row];
}

}  // namespace fixed_capacity
