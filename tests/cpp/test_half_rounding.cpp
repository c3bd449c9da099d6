// What the kernel variants of this processor write to caches in half precision.
#include "check.h"
#include "halves.h"
#include "kernel_variants.h"

namespace fixed_capacity::testing {
namespace {

// What each variant writes for these floats, in runs that fill vectors, fall short of one and exceed one.
void check_written(const std::vector<float>& values, const std::vector<uint16_t>& want) {
  const SupportedVariants variants = supported_variants();
  for (int index = 0; index < variants.count; ++index)
    for (const size_t count : {1, 7, 16, 33})
      for (size_t first = 0; first + count <= values.size(); first += count) {
        std::vector<Half> got(count + 1, Half{0xABCD});
        variants.items[index].to_half(values.data() + first, got.data(), static_cast<int64_t>(count));
        for (size_t entry = 0; entry < count; ++entry) CHECK(got[entry].bits == want[first + entry]);
        CHECK(got[count].bits == 0xABCD);
      }
}

}  // namespace

TEST(every_finite_half_is_written_as_itself) {
  std::vector<float> values;
  std::vector<uint16_t> want;
  for (uint32_t bits = 0; bits < 0x10000; bits += 7)
    if ((bits & 0x7C00) != 0x7C00) {
      values.push_back(static_cast<float>(value_of(Half{static_cast<uint16_t>(bits)})));
      want.push_back(static_cast<uint16_t>(bits));
    }
  check_written(values, want);
}

TEST(floats_between_two_halves_go_to_the_nearest_and_halves_to_even) {
  std::vector<float> values;
  std::vector<uint16_t> want;
  for (uint32_t bits = 0; bits + 1 < 0x7C00; bits += 5) {
    const double low = value_of(Half{static_cast<uint16_t>(bits)});
    const double high = value_of(Half{static_cast<uint16_t>(bits + 1)});
    const float middle = static_cast<float>((low + high) / 2);
    const uint16_t even = static_cast<uint16_t>(bits + bits % 2);
    for (const auto& [value, wanted] :
         {std::pair{middle, even}, std::pair{std::nextafter(middle, 0.0F), static_cast<uint16_t>(bits)},
          std::pair{std::nextafter(middle, 1e9F), static_cast<uint16_t>(bits + 1)}}) {
      values.insert(values.end(), {value, -value});
      want.insert(want.end(), {wanted, static_cast<uint16_t>(wanted | 0x8000)});
    }
  }
  check_written(values, want);
}

TEST(what_is_beyond_the_largest_half_becomes_that_and_tiny_values_become_zero) {
  const float infinity = std::numeric_limits<float>::infinity();
  check_written({65504.0F, 65519.0F, 65520.0F, 1e30F, infinity, -70000.0F, -infinity},
                {0x7BFF, 0x7BFF, 0x7BFF, 0x7BFF, 0x7BFF, 0xFBFF, 0xFBFF});
  check_written({1e-8F, -1e-30F, 1e-45F, 0.0F, -0.0F}, {0, 0x8000, 0, 0, 0x8000});
}

TEST(nan_is_written_as_nan) {
  const SupportedVariants variants = supported_variants();
  for (int index = 0; index < variants.count; ++index) {
    const std::vector<float> values(33, std::nanf(""));
    std::vector<Half> got(values.size());
    variants.items[index].to_half(values.data(), got.data(), static_cast<int64_t>(values.size()));
    for (const Half half : got) CHECK(std::isnan(value_of(half)));
  }
}

}  // namespace fixed_capacity::testing
