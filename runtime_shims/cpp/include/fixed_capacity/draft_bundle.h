// Whether one bundle can draft for another: both must mean the same by a token. The twin of
// runtime_shims/reference/draft_bundle.py.
#pragma once

#include "fixed_capacity/bundle_reader.h"
#include "fixed_capacity/result.h"

namespace fixed_capacity {

// Refuses with everything in which the bundles differ and must not. Capacities may differ: a smaller draft drafts less.
// A bundle's own draft has the tokenizer of its bundle.
Status check_draft_bundle(const Bundle& target, const Bundle& draft, bool is_own = false);

}  // namespace fixed_capacity
