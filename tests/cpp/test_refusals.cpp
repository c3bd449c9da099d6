// Every wrong argument is refused by name.
#include <string>

#include "check.h"
#include "operators.h"
#include "tensors.h"

namespace fixed_capacity::testing {
namespace {

// A valid call of each operator, to be spoilt in one place at a time. 2 rows of a cache of 3, 4 query and 2 kv heads.
struct Valid {
  Floats query{{2, 4, 3, 8}}, key{{2, 2, 3, 8}}, value{{2, 2, 3, 6}}, key_cache{{3, 2, 10, 8}}, value_cache{{3, 2, 10, 6}};
  Floats table{{4, 5}};
  Indices positions = indices({0, 7}), lengths = indices({3, 2});

  CachedAttentionArguments cached() {
    return {query.view(), key.view(), value.view(), key_cache.mutable_view(), value_cache.mutable_view(),
            positions.view(), lengths.view(), {table.view(), 0, 4, 1.0, 2.0}};
  }
  CrossAttentionArguments cross() {
    return {query.view(), key_cache.view(), value_cache.view(), lengths.view(), {}};
  }
  EncoderAttentionArguments encoder() {
    return {query.view(), key.view(), value.view(), lengths.view(), {table.view(), 2, std::nullopt, 1.0, {}}};
  }
  WriteCrossArguments write() {
    return {key.view(), value.view(), key_cache.mutable_view(), value_cache.mutable_view(), lengths.view()};
  }
};

template <typename Arguments>
bool refused_for(const Arguments& arguments, const char* words) {
  const Refusal refusal = check(arguments);
  const bool found = refusal && std::string(refusal.reason).find(words) != std::string::npos;
  if (!found) std::printf("  wanted '%s', got '%s'\n", words, refusal ? refusal.reason : "no refusal");
  return found;
}

template <typename Spoil>
bool cached_refused(Spoil spoil, const char* words) {
  Valid valid;
  auto arguments = valid.cached();
  spoil(arguments);
  return refused_for(arguments, words);
}

}  // namespace

TEST(valid_calls_are_accepted) {
  Valid valid;
  CHECK(!check(valid.cached()));
  CHECK(!check(valid.cross()));
  CHECK(!check(valid.encoder()));
  CHECK(!check(valid.write()));
}

TEST(cached_attention_refuses_shapes_that_do_not_fit) {
  CHECK(cached_refused([](auto& call) { call.query.rank = 3; }, "4 dimensions"));
  CHECK(cached_refused([](auto& call) { call.key_cache.rank = 3; }, "4 dimensions"));
  CHECK(cached_refused([](auto& call) { call.query.sizes[1] = 3; }, "multiple"));
  CHECK(cached_refused([](auto& call) { call.key.sizes[1] = 0; }, "multiple"));
  CHECK(cached_refused([](auto& call) { call.value.sizes[2] = 2; }, "agree"));
  CHECK(cached_refused([](auto& call) { call.query.sizes[3] = 7; }, "one head size"));
  CHECK(cached_refused([](auto& call) { call.query.sizes[2] = 2; }, "step tokens"));
  CHECK(cached_refused([](auto& call) { call.value_cache.sizes[2] = 9; }, "slots"));
  CHECK(cached_refused([](auto& call) { call.value_cache.sizes[3] = 5; }, "head sizes"));
  CHECK(cached_refused([](auto& call) { call.key_cache.sizes[0] = call.value_cache.sizes[0] = 1; }, "more rows"));
  CHECK(cached_refused([](auto& call) { call.key_cache.sizes[1] = call.value_cache.sizes[1] = 1; }, "cache heads"));
  CHECK(cached_refused([](auto& call) { call.key_cache.sizes[2] = call.value_cache.sizes[2] = 2; }, "more tokens"));
  CHECK(cached_refused([](auto& call) { call.query.sizes[3] = call.key.sizes[3] = 1025; }, "1..1024"));
}

TEST(cached_attention_refuses_values_out_of_range) {
  const auto with_positions = [](std::vector<int64_t> positions, std::vector<int64_t> lengths, const char* words) {
    Valid valid;
    valid.positions = indices(positions);
    valid.lengths = indices(lengths);
    return refused_for(valid.cached(), words);
  };
  CHECK(with_positions({0, -1}, {3, 2}, "position"));
  CHECK(with_positions({0, int64_t{1} << 40}, {3, 2}, "position"));
  CHECK(with_positions({0, 0, 0}, {3, 2}, "positions"));
  CHECK(with_positions({0, 0}, {4, 2}, "length"));
  CHECK(with_positions({0, 0}, {-1, 2}, "length"));
  CHECK(with_positions({0, 0}, {1}, "lengths"));
  CHECK(cached_refused([](auto& call) { call.options.window = 0; }, "window"));
  CHECK(cached_refused([](auto& call) { call.options.softcap = 0.0; }, "soft cap"));
  CHECK(cached_refused([](auto& call) { call.options.bias_table->sizes[0] = 2; }, "bias table"));
  CHECK(cached_refused([](auto& call) { call.options.bias_table->sizes[1] = 0; }, "bias table"));
  CHECK(cached_refused([](auto& call) { call.options.bias_origin = int64_t{1} << 40; }, "bias origin"));
  const Floats sinks({4}), fewer({3});
  CHECK(!cached_refused([&](auto& call) { call.options.sinks = sinks.view(); }, ""));
  CHECK(cached_refused([&](auto& call) { call.options.sinks = fewer.view(); }, "sinks"));
  CHECK(cached_refused([&](auto& call) { call.options.bias_table->rank = 1; }, "bias table"));
}

TEST(the_other_operators_refuse_what_does_not_fit) {
  Valid valid;
  valid.lengths = indices({11, 0});
  CHECK(refused_for(valid.cross(), "length"));
  CHECK(refused_for(valid.encoder(), "length"));
  CHECK(refused_for(valid.write(), "length"));
  Valid wide;
  auto cross = wide.cross();
  cross.query.sizes[0] = 4;
  CHECK(refused_for(cross, "more rows"));
  auto encoder = wide.encoder();
  encoder.query.sizes[2] = 4;
  CHECK(refused_for(encoder, "agree"));
  auto write = wide.write();
  write.key.sizes[2] = write.value.sizes[2] = 11;
  CHECK(refused_for(write, "more positions"));
}

}  // namespace fixed_capacity::testing
