// Sound files as the speech front end takes them: one channel at the model's rate, padded with silence to its length.
// The twin of runtime_shims/reference/audio.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "fixed_capacity/manifest.h"
#include "fixed_capacity/result.h"

namespace fixed_capacity {

// Which part of a file is used, in seconds; without `seconds` everything after `start`.
struct AudioCut {
  double start = 0.0;
  std::optional<double> seconds;

  // Refuses a negative start, an empty cut, or a time that is not finite.
  Status check() const;
};

// The cut of a WAV file at `sampling_rate` samples per second, channels averaged; the rest of the file is not read.
// Refuses a file that is missing, not sound, or has nothing in the cut; and, before any sound is read, a cut that is
// longer than `max_seconds` by the file's header.
Result<std::vector<float>> read_mono(const std::filesystem::path& path, const AudioCut& cut, int64_t sampling_rate,
                                     double max_seconds = std::numeric_limits<double>::infinity());

// The same sound at another rate: a windowed sinc that passes what both rates can hold.
std::vector<float> resample(std::span<const float> samples, int64_t from_rate, int64_t to_rate);

// One row of the front end's input: a cut of at most `count` samples at `sampling_rate`, zeros behind its end. Less
// than half a sample too much is left out.
Result<std::vector<float>> waveform(const std::filesystem::path& path, const AudioCut& cut, int64_t sampling_rate,
                                    int64_t count);

// One row for an encoder that takes any length: a cut of at most `speech.samples` samples, as long as it is. Refuses
// what is too short to be heard.
Result<std::vector<float>> sound(const std::filesystem::path& path, const AudioCut& cut, const Speech& speech);

}  // namespace fixed_capacity
