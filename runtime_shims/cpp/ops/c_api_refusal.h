// The reason behind fixed_capacity_last_refusal().
#pragma once

namespace fixed_capacity {

extern thread_local const char* last_refusal;

}  // namespace fixed_capacity
