#include "kernel_variants.h"

namespace fixed_capacity {

namespace baseline {
void run_tile(const TileTask& task);
void run_project(const ProjectTask& task);
}
#if defined(FIXED_CAPACITY_X86_VARIANTS)
namespace x86_64_v3 {
void run_tile(const TileTask& task);
void run_project(const ProjectTask& task);
}
namespace x86_64_v4 {
void run_tile(const TileTask& task);
void run_project(const ProjectTask& task);
}
#endif

SupportedVariants supported_variants() {
  SupportedVariants found;
#if defined(FIXED_CAPACITY_X86_VARIANTS)
  __builtin_cpu_init();
  const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (has_v4) found.items[found.count++] = {"x86-64-v4", x86_64_v4::run_tile, x86_64_v4::run_project};
  if (has_v3) found.items[found.count++] = {"x86-64-v3", x86_64_v3::run_tile, x86_64_v3::run_project};
#endif
  found.items[found.count++] = {"baseline", baseline::run_tile, baseline::run_project};
  return found;
}

const KernelVariant& best_variant() {
  static const KernelVariant best = supported_variants().items[0];
  return best;
}

}  // namespace fixed_capacity
