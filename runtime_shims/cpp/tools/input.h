// What bundle-runner was asked to run, as rows of requests.
#pragma once

#include <string>
#include <vector>

#include "fixed_capacity/bundle_reader.h"
#include "options.h"

namespace fixed_capacity {

// One row: what the user gave, the decoder's prompt, and what the encoder takes, if there is one.
struct InputRow {
  std::string label;
  std::vector<int64_t> prompt, source;
  std::vector<float> waveform;
};

// All rows, in the order given.
Result<std::vector<InputRow>> read_input(const Bundle& bundle, const RunnerOptions& options);

}  // namespace fixed_capacity
