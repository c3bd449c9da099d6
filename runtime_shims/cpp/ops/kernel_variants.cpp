#include "kernel_variants.h"

#if defined(FIXED_CAPACITY_X86_VARIANTS)
#include <cpuid.h>
#endif
#if defined(FIXED_CAPACITY_ARM_VARIANTS) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(FIXED_CAPACITY_ARM_VARIANTS)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define FIXED_CAPACITY_ATTENTION(variant)                                               \
  namespace variant {                                                                   \
  void run_tile(const TileTask& task);                                                  \
  void run_to_half(const float* from, Half* to, int64_t count);                         \
  void run_to_bytes(const float* from, CacheByte* to, int64_t positions, int64_t dim);  \
  }
#define FIXED_CAPACITY_LINEAR(variant)         \
  namespace variant {                          \
  void run_linear(const LinearTask& task);     \
  void run_quantize(const QuantizeTask& task); \
  void run_embed(const EmbedTask& task);       \
  }

namespace fixed_capacity {

FIXED_CAPACITY_ATTENTION(baseline)
FIXED_CAPACITY_LINEAR(baseline)
#if defined(FIXED_CAPACITY_X86_VARIANTS)
FIXED_CAPACITY_ATTENTION(x86_64_v3)
FIXED_CAPACITY_LINEAR(x86_64_v3)
FIXED_CAPACITY_LINEAR(x86_64_v3_vnni)
FIXED_CAPACITY_ATTENTION(x86_64_v4)
FIXED_CAPACITY_LINEAR(x86_64_v4)
FIXED_CAPACITY_LINEAR(x86_64_v4_vnni)
#endif
#if defined(FIXED_CAPACITY_ARM_VARIANTS)
FIXED_CAPACITY_LINEAR(arm_dotprod)
#endif

#define FIXED_CAPACITY_ENTRY(text, attention, products)                                                  \
  KernelVariant {                                                                                        \
    text, attention::run_tile, attention::run_to_half, attention::run_to_bytes, products::run_linear,    \
        products::run_quantize, products::run_embed                                                      \
  }

#if defined(FIXED_CAPACITY_X86_VARIANTS)
namespace {

// Two instruction sets that Clang's __builtin_cpu_supports does not know by name. They are asked for beside AVX2, which
// is reported only where the operating system keeps the registers that they use.
bool supports_f16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx >> 29 & 1) != 0;
}

bool supports_avxvnni() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}

}  // namespace
#endif

#if defined(FIXED_CAPACITY_ARM_VARIANTS)
namespace {

bool supports_dotprod() {
#if defined(__APPLE__)
  int answer = 0;
  size_t size = sizeof(answer);
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &answer, &size, nullptr, 0) == 0 && answer != 0;
#else
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
}

}  // namespace
#endif

SupportedVariants supported_variants() {
  SupportedVariants found;
  const auto add = [&found](const KernelVariant& variant) { found.items[found.count++] = variant; };
#if defined(FIXED_CAPACITY_X86_VARIANTS)
  __builtin_cpu_init();
  const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                      supports_f16c();
  const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (has_v4 && __builtin_cpu_supports("avx512vnni"))
    add(FIXED_CAPACITY_ENTRY("x86-64-v4+vnni", x86_64_v4, x86_64_v4_vnni));
  if (has_v4) add(FIXED_CAPACITY_ENTRY("x86-64-v4", x86_64_v4, x86_64_v4));
  if (has_v3 && supports_avxvnni()) add(FIXED_CAPACITY_ENTRY("x86-64-v3+vnni", x86_64_v3, x86_64_v3_vnni));
  if (has_v3) add(FIXED_CAPACITY_ENTRY("x86-64-v3", x86_64_v3, x86_64_v3));
#endif
#if defined(FIXED_CAPACITY_ARM_VARIANTS)
  if (supports_dotprod()) add(FIXED_CAPACITY_ENTRY("arm+dotprod", baseline, arm_dotprod));
#endif
  add(FIXED_CAPACITY_ENTRY("baseline", baseline, baseline));
  return found;
}

const KernelVariant& best_variant() {
  static const KernelVariant best = supported_variants().items[0];
  return best;
}

}  // namespace fixed_capacity
