// Stands in for a fuzzer where there is none: runs the entry over every file of the given directories, over each file
// cut short at many places, and over each with single bytes changed.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Bytes that mean something in JSON or between token ids, or nothing in UTF-8.
constexpr char kBytes[] = {'"', '\\', '{', ']', ',', '9', '-', '+', '\n', '\0', '\x80'};
constexpr size_t kShort = 1024, kStride = 7;  // of a longer file, one place in seven is changed

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

size_t run_around(const std::string& text) {
  size_t runs = 0;
  const auto run_one = [&runs](const std::string& changed) {
    run(changed);
    ++runs;
  };
  run_one(text);
  const size_t stride = text.size() < kShort ? 1 : kStride;
  for (size_t place = 0; place < text.size(); place += stride) {
    std::string changed = text;
    changed[place] = kBytes[place / stride % sizeof kBytes];
    run_one(changed);
    run_one(text.substr(0, place));
    run_one(text.substr(0, place) + text.substr(place + 1));
  }
  return runs;
}

}  // namespace

int main(int count, char** arguments) {
  size_t runs = 0;
  for (int index = 1; index < count; ++index)
    for (const auto& entry : std::filesystem::directory_iterator(arguments[index])) {
      std::ifstream stream(entry.path(), std::ios::binary);
      runs += run_around({std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
    }
  std::printf("%zu runs\n", runs);
  return runs > 0 ? 0 : 1;
}
