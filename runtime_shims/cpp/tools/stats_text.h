// What a run cost, for people: times, rates, memory, and what became of drafts.
#pragma once

#include <cstdint>
#include <vector>

#include "output.h"

namespace fixed_capacity {

// Rounds by how many drafts stood, up to the largest number that did.
std::vector<int64_t> lengths_of(const RunStats& stats);

// Prints to standard error.
void print_stats(const RunStats& stats, const RunReport& report);

}  // namespace fixed_capacity
