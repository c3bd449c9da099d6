// The form of a manifest: which keys it has and what each may hold.
#pragma once

#include "fixed_capacity/manifest.h"
#include "json_value.h"

namespace fixed_capacity {

// Everything that `data` has not the form of; `into` is to be used only when that is nothing.
Faults read_manifest_fields(const JsonValue& data, Manifest& into);

}  // namespace fixed_capacity
