#include "fixed_capacity/faults.h"

#include "fixed_capacity/words.h"
#include "shown.h"

namespace fixed_capacity {

std::string faults_text(std::string_view where, const Faults& faults, std::string_view advice) {
  const std::string name = one_line(where);
  if (faults.size() == 1) return words(name, ": ", faults.front(), "; ", advice);
  std::string text = words(name, ": ", faults.size(), " faults; ", advice);
  for (const std::string& fault : faults) text += "\n  " + fault;
  return text;
}

}  // namespace fixed_capacity
