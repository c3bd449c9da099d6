// Any bytes are a manifest, or are refused in words: no crash, no other code, and what is accepted can be used.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fixed_capacity/manifest.h"
#include "fixed_capacity/sequence_cursor.h"
#include "require.h"

namespace {

using namespace fixed_capacity;

void check_refusal(const Error& error) {
  const bool is_reader_code = error.code == ErrorCode::manifest_invalid || error.code == ErrorCode::format_too_new;
  require(is_reader_code, "the code is one of the reader's");
  require(error.message.starts_with("fuzz: "), "the message begins with the place");
  require(error.message.size() > sizeof "fuzz: ", "the message says something");
}

// The rules of the manifest are those of the cursor.
void check_cursor(const Manifest& manifest) {
  constexpr int64_t kMostRows = 1 << 16;  // more are memory, not rules
  if (manifest.limits.max_batch > kMostRows) return;
  std::vector<CacheGeometry> geometries;
  for (const CacheEntry& entry : manifest.caches)
    if (entry.kind != CacheKind::cross) geometries.push_back({entry.kind, entry.reach, manifest.limits.max_step});
  require(SequenceCursor::make(manifest.limits.max_batch, manifest.limits.max_dec, geometries).ok(),
          "a manifest that is accepted has a cursor");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Manifest> read = from_json(text, "fuzz");
  if (read)
    check_cursor(*read);
  else
    check_refusal(read.error());
  return 0;
}
