#include "fixed_capacity/faults.h"

#include "fixed_capacity/words.h"

namespace fixed_capacity {

std::string faults_text(std::string_view where, const Faults& faults, std::string_view advice) {
  if (faults.size() == 1) return words(where, ": ", faults.front(), "; ", advice);
  std::string text = words(where, ": ", faults.size(), " faults; ", advice);
  for (const std::string& fault : faults) text += "\n  " + fault;
  return text;
}

}  // namespace fixed_capacity
