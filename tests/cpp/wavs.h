// WAV files for the tests, with whatever header a test asks for.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "files.h"

namespace fixed_capacity::testing {

template <typename Number>
void put(std::string& bytes, Number value) {
  char raw[sizeof(Number)];
  std::memcpy(raw, &value, sizeof(value));
  bytes.append(raw, sizeof(value));
}

struct Header {
  uint16_t code, channels, bits;
  uint32_t rate;
  std::optional<uint32_t> data_bytes, riff_bytes;  // what is claimed; otherwise the truth
  std::string before;                              // chunks before the samples
};

inline std::string chunk(const std::string& tag, const std::string& body, std::optional<uint32_t> claimed = {}) {
  std::string bytes = tag;
  put(bytes, claimed.value_or(static_cast<uint32_t>(body.size())));
  bytes += body;
  if (body.size() % 2 != 0) bytes.push_back('\0');  // chunks begin at even places
  return bytes;
}

// A file with `data` as its samples, and a chunk that readers must skip.
inline std::string wav(const Header& header, const std::string& data) {
  std::string format;
  put(format, header.code);
  put(format, header.channels);
  put(format, header.rate);
  put(format, uint32_t{header.rate * header.channels * header.bits / 8u});
  put(format, static_cast<uint16_t>(header.channels * header.bits / 8u));
  put(format, header.bits);
  const std::string body = "WAVE" + chunk("LIST", "odd") + header.before + chunk("fmt ", format) +
                           chunk("data", data, header.data_bytes);
  std::string bytes = "RIFF";
  put(bytes, header.riff_bytes.value_or(static_cast<uint32_t>(body.size())));
  return bytes + body;
}

inline std::filesystem::path written(const Directory& directory, const std::string& bytes) {
  const std::filesystem::path path = directory.path / "sound.wav";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace fixed_capacity::testing
