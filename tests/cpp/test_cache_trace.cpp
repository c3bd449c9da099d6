// Replays tests/golden/cache_trace.json, which was written without this library; tests/golden/make_cache_trace.py says
// what is in it.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.h"
#include "fixed_capacity/sequence_cursor.h"

namespace fixed_capacity::testing {
namespace {

using Json = nlohmann::json;
using Integers = std::vector<int64_t>;

Json cases_of_trace() {
  std::ifstream stream(FIXED_CAPACITY_GOLDEN "/cache_trace.json");
  const Json trace = Json::parse(stream, nullptr, false);
  return trace.is_object() ? trace["cases"] : Json::array();
}

std::vector<CacheGeometry> geometries_of(const Json& layers, int64_t max_step) {
  std::vector<CacheGeometry> geometries;
  for (const Json& layer : layers) {
    const CacheKind kind = layer["kind"] == "full" ? CacheKind::full : CacheKind::sliding;
    geometries.push_back({kind, layer["reach"], max_step});
    CHECK(geometries.back().slots() == layer["slots"]);
  }
  return geometries;
}

Status apply(SequenceCursor& cursor, const Json& event) {
  const std::string verb = event["op"];
  if (verb == "clear") return cursor.clear(event["row"]);
  return verb == "rollback" ? cursor.rollback(event["row"], event["count"])
                            : cursor.advance(event["row"], event["count"]);
}

// Whether a layer stands for the positions, and its queries see the slots, that the trace says.
bool reads_as(const CacheGeometry& geometry, int64_t end, int64_t count, const Json& read) {
  Integers positions;
  for (int64_t slot = 0; slot < geometry.slots(); ++slot)
    positions.push_back(position_of(slot, end, geometry.slots()));
  std::vector<Integers> visible;
  for (int64_t query = end - count; query < end; ++query) {
    visible.emplace_back();
    for (int64_t slot = 0; slot < geometry.slots(); ++slot)
      if (is_visible(geometry, query, slot, end)) visible.back().push_back(slot);
  }
  return positions == read["positions"].get<Integers>() && visible == read["visible"].get<std::vector<Integers>>();
}

void replay(const Json& trace) {
  const std::vector<CacheGeometry> geometries = geometries_of(trace["layers"], trace["max_step"]);
  SequenceCursor cursor = SequenceCursor::make(trace["max_batch"], trace["max_context"], geometries).value();
  for (const Json& event : trace["events"]) {
    const int64_t row = event["row"];
    const Status applied = apply(cursor, event);
    CHECK(applied.ok() != event["refused"].get<bool>());
    const ErrorCode code = event["op"] == "advance" ? ErrorCode::capacity_exceeded : ErrorCode::rollback_too_deep;
    CHECK(applied.ok() || applied.error().code == code);
    CHECK(cursor.length(row) == event["length"]);
    CHECK(cursor.high_water(row) == event["high_water"]);
    CHECK(cursor.floor(row) == event["floor"]);
    const Json& reads = event["reads"];
    for (size_t layer = 0; layer < reads.size(); ++layer)
      CHECK(reads_as(geometries[layer], cursor.length(row), event["count"], reads[layer]));
  }
}

}  // namespace

TEST(the_cursor_replays_the_golden_trace) {
  const Json cases = cases_of_trace();
  CHECK(cases.size() >= 4);
  for (const Json& trace : cases) replay(trace);
}

}  // namespace fixed_capacity::testing
