// The rules of a manifest about its caches and about memory.
#include <algorithm>

#include "manifest_rules.h"
#include "natural.h"
#include "rule_report.h"
#include "shown.h"

namespace fixed_capacity {
namespace {

// The cache law, stated again on the manifest's numbers.
void check_geometry(const std::string& path, const CacheEntry& entry, const Limits& limits, Report& report) {
  if (entry.kind == CacheKind::cross) {
    if (!limits.max_enc) return;  // already a fault of the kind
    report.equal(path + ".reach", entry.reach, *limits.max_enc, "max_enc");
    report.equal(path + ".slots", entry.slots, *limits.max_enc, "max_enc");
    return;
  }
  const Natural slots = Natural(entry.reach - 1) + limits.max_step;
  report.equal(path + ".slots", entry.slots, slots, "reach + max_step - 1");
  if (entry.kind == CacheKind::full)
    report.equal(path + ".reach", entry.reach, limits.max_dec, "max_dec");
  else if (entry.reach > limits.max_dec)
    report.add(path, ".reach: expected at most ", limits.max_dec, " (max_dec), got ", entry.reach);
}

// Bytes of one position of one head with `head_size` values; in 8 bits their scale follows, a float32.
Natural position_bytes(const std::string& dtype, int64_t head_size) {
  if (dtype == "int8") return Natural(head_size) + 4;
  return Natural(head_size) * (dtype == "float32" ? 4 : 2);
}

void check_cache_size(const std::string& path, const CacheEntry& entry, int64_t max_batch, Report& report) {
  const Natural of_head = position_bytes(entry.dtype, entry.key_dim) + position_bytes(entry.dtype, entry.value_dim);
  const Natural size = Natural(max_batch) * entry.kv_heads * entry.slots * of_head;
  report.equal(path + ".size_bytes", entry.size_bytes, size,
               words("max_batch * kv_heads * slots * ", of_head.text(), " for key_dim and value_dim in ", entry.dtype));
}

Natural cache_bytes(const Manifest& manifest) {
  Natural sum = 0;
  for (const CacheEntry& entry : manifest.caches) sum = sum + entry.size_bytes;
  return sum;
}

}  // namespace

void check_caches(const Manifest& manifest, Report& report) {
  std::vector<std::string> names, self_layers, cross_layers;
  for (const CacheEntry& entry : manifest.caches) {
    names.push_back(quoted(entry.name));
    (entry.kind == CacheKind::cross ? cross_layers : self_layers).push_back(std::to_string(entry.layer));
  }
  report.add_all(repeated("caches, names", names));
  report.add_all(repeated("caches, self-attention layers", self_layers));
  report.add_all(repeated("caches, cross-attention layers", cross_layers));
  if (self_layers.empty()) report.add("caches: expected at least one self-attention cache, got none");
  for (size_t index = 0; index < manifest.caches.size(); ++index) {
    const std::string path = words("caches[", index, "]");
    check_geometry(path, manifest.caches[index], manifest.limits, report);
    check_cache_size(path, manifest.caches[index], manifest.limits.max_batch, report);
  }
  report.equal("memory.cache_bytes", manifest.memory.cache_bytes, cache_bytes(manifest), "sum over caches");
}

// What is planned is the largest program's, and holds the caches and the activations exactly.
void check_memory(const Manifest& manifest, Report& report) {
  if (manifest.programs.empty()) return;  // a fault of the programs
  const MemoryPlan& memory = manifest.memory;
  int64_t largest = 0;
  for (const ProgramEntry& program : manifest.programs) largest = std::max(largest, program.planned_bytes);
  const Natural activations = difference_or_zero(memory.planned_bytes, cache_bytes(manifest));
  report.equal("memory.planned_bytes", memory.planned_bytes, largest, "largest planned_bytes of a program");
  report.equal("memory.activation_bytes", memory.activation_bytes, activations, "planned_bytes - caches");
}

}  // namespace fixed_capacity
