// Sound files as the speech front end takes them: one channel at the model's rate, padded with silence to its length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "fixed_capacity/result.h"

namespace fixed_capacity {

struct Sound {
  int64_t sampling_rate = 0;   // per second
  std::vector<float> samples;  // channels averaged, within -1..1
};

// Which part of a recording is used, in seconds.
struct AudioCut {
  double start = 0.0;
  std::optional<double> seconds;
};

// Reads a RIFF/WAVE file of PCM samples (8, 16, 24 or 32 bits) or floats (32 or 64 bits).
Result<Sound> read_wav(const std::filesystem::path& path);

// The cut's samples. Refuses a cut that begins past the end or is not positive.
Result<Sound> cut(Sound sound, const AudioCut& part);

// The same sound at another rate: a windowed sinc that passes what both rates can hold.
std::vector<float> resample(std::span<const float> samples, int64_t from_rate, int64_t to_rate);

// One row of the front end's input: at `sampling_rate`, padded with zeros to `count` samples. Refuses longer sounds,
// before they are resampled; less than half a sample too much is left out.
Result<std::vector<float>> waveform(const Sound& sound, int64_t sampling_rate, int64_t count);

}  // namespace fixed_capacity
