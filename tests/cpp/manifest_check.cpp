// manifest-check [--no-hashes] DIRECTORY|FILE...: what the C++ reader says of bundles and of manifests, as a JSON list
// of {"code", "message"}, one for each argument. For tests/contract/test_cpp_reader.py.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "fixed_capacity/bundle_reader.h"

namespace {

using fixed_capacity::ErrorCode;
using Json = nlohmann::json;

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::bundle_missing: return "bundle_missing";
    case ErrorCode::bundle_corrupt: return "bundle_corrupt";
    case ErrorCode::manifest_invalid: return "manifest_invalid";
    case ErrorCode::format_too_new: return "format_too_new";
    default: return "another error";
  }
}

template <typename Outcome>
Json answer(const Outcome& outcome) {
  if (outcome) return {{"code", "ok"}, {"message", ""}};
  return {{"code", name_of(outcome.error().code)}, {"message", outcome.error().message}};
}

Json check(const std::string& path, bool check_hashes) {
  if (!std::filesystem::is_regular_file(path)) return answer(fixed_capacity::read_bundle(path, check_hashes));
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  return answer(fixed_capacity::from_json(text, path));
}

}  // namespace

int main(int count, char** arguments) {
  bool check_hashes = true;
  Json answers = Json::array();
  for (int index = 1; index < count; ++index) {
    const std::string argument = arguments[index];
    if (argument == "--no-hashes")
      check_hashes = false;
    else
      answers.push_back(check(argument, check_hashes));
  }
  std::printf("%s\n", answers.dump().c_str());
  return 0;
}
