#include "fixed_capacity/program.h"

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

Error no_assistant() { return refusal(ErrorCode::unsupported_setting, "the program has no assistant"); }

}  // namespace

Result<std::span<const float>> Program::hidden() { return no_assistant(); }
Result<Drafted> Program::draft(const DraftInputs&) { return no_assistant(); }

Status StepInputs::check_limits(const Limits& limits) const {
  struct Size {
    const char* what;
    int64_t given, allowed;
  };
  for (const Size& size : {Size{"batch rows (--max-batch)", rows, limits.max_batch},
                           Size{"step tokens (--prefill-chunk, --max-draft)", width, limits.max_step},
                           Size{"logit rows (--max-draft)", logit_count, limits.max_logit_rows}})
    if (size.given < 1 || size.given > size.allowed)
      return refusal(ErrorCode::capacity_exceeded, "a step of ", size.given, " ", size.what, " was asked for; 1 to ",
                     size.allowed, " fit");
  return {};
}

}  // namespace fixed_capacity
