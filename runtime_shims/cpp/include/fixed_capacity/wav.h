// RIFF/WAVE files of PCM samples (8, 16, 24 or 32 bits) or floats (32 or 64 bits). Of a file of gigabytes, the header
// and the samples that are asked for are read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

struct WavFormat {
  uint16_t code = 0, channels = 0, bits = 0;
  int64_t rate = 0;  // frames per second

  size_t sample_bytes() const { return bits / 8u; }
  size_t frame_bytes() const { return sample_bytes() * channels; }
};

class WavFile {
 public:
  // Reads the header: the chunks before the samples. Refuses what is no sound, or sound of another kind.
  static Result<WavFile> open(const std::filesystem::path& path);

  int64_t rate() const { return format_.rate; }
  // Whole frames that are there, whatever the header claims.
  int64_t frames() const { return frames_; }

  // `count` frames from frame `first` on, within -1..1, channels averaged; both lie within `frames()`.
  Result<std::vector<float>> read(int64_t first, int64_t count);

 private:
  WavFile(std::filesystem::path path, std::ifstream file) : path_(std::move(path)), file_(std::move(file)) {}

  Status read_header(int64_t file_bytes);

  std::filesystem::path path_;
  std::ifstream file_;
  WavFormat format_;
  int64_t data_start_ = 0, frames_ = 0;
};

}  // namespace fixed_capacity
