// How everything that is wrong with a bundle is told at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fixed_capacity {

using Faults = std::vector<std::string>;

// One line for one fault; a heading and one line each for several. `where` names the bundle or file, `advice` says what
// to do about all of them.
std::string faults_text(std::string_view where, const Faults& faults, std::string_view advice);

}  // namespace fixed_capacity
