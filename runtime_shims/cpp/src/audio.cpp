#include "fixed_capacity/audio.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numbers>
#include <numeric>

#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

constexpr uint16_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;
constexpr int64_t kMostBytes = int64_t{1} << 31;
constexpr int64_t kMostRate = 384000;  // samples per second; a filter for more takes gigabytes

// A little-endian number at `place`; the caller knows that it lies within the bytes.
template <typename Number>
Number number_at(std::span<const uint8_t> bytes, size_t place) {
  uint64_t bits = 0;
  for (size_t index = 0; index < sizeof(Number); ++index) bits |= uint64_t{bytes[place + index]} << (8 * index);
  Number value;
  if constexpr (sizeof(Number) == 8) {
    std::memcpy(&value, &bits, 8);
  } else {
    const auto narrow = static_cast<uint32_t>(bits);
    std::memcpy(&value, &narrow, sizeof(Number));
  }
  return value;
}

struct Format {
  uint16_t code = 0, channels = 0, bits = 0;
  int64_t rate = 0;

  size_t sample_bytes() const { return bits / 8u; }
  bool is_known() const {
    const bool is_pcm = code == kPcm && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
    return (is_pcm || (code == kFloat && (bits == 32 || bits == 64))) && channels > 0 && rate > 0;
  }
};

float sample_at(std::span<const uint8_t> bytes, size_t place, const Format& format) {
  if (format.code == kFloat)
    return format.bits == 32 ? number_at<float>(bytes, place) : static_cast<float>(number_at<double>(bytes, place));
  switch (format.bits) {
    case 8: return (static_cast<float>(bytes[place]) - 128.0F) / 128.0F;
    case 16: return static_cast<float>(number_at<int16_t>(bytes, place)) / 32768.0F;
    case 24: {
      const auto wide = static_cast<uint32_t>(bytes[place] | bytes[place + 1] << 8 | bytes[place + 2] << 16) << 8;
      return static_cast<float>(static_cast<int32_t>(wide)) / 2147483648.0F;
    }
    default: return static_cast<float>(number_at<int32_t>(bytes, place)) / 2147483648.0F;
  }
}

Result<std::vector<uint8_t>> contents(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return refusal(ErrorCode::user_input, path.string(), " is a directory; give a WAV file");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<int64_t>(file.tellg()) : -1;
  if (size < 0) return refusal(ErrorCode::user_input, path.string(), " cannot be read; give a WAV file");
  if (size > kMostBytes)
    return refusal(ErrorCode::user_input, path.string(), " has ", size, " bytes; at most ", kMostBytes, " are read");
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), size);
  if (!file) return refusal(ErrorCode::user_input, path.string(), " cannot be read to its end");
  return bytes;
}

bool has_tag(std::span<const uint8_t> bytes, size_t place, const char* tag) {
  return place + 4 <= bytes.size() && std::memcmp(bytes.data() + place, tag, 4) == 0;
}

// The frames of the data chunk as one channel.
std::vector<float> mixed(std::span<const uint8_t> data, const Format& format) {
  const size_t frame = format.sample_bytes() * format.channels, count = data.size() / frame;
  std::vector<float> samples(count);
  for (size_t index = 0; index < count; ++index) {
    float sum = 0.0F;
    for (size_t channel = 0; channel < format.channels; ++channel)
      sum += sample_at(data, index * frame + channel * format.sample_bytes(), format);
    samples[index] = sum / static_cast<float>(format.channels);
  }
  return samples;
}

double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

// The modified Bessel function of order 0, by its series; not every standard library has it.
double bessel(double x) {
  double term = 1.0, sum = 1.0;
  for (int order = 1; term > 1e-17 * sum; ++order) {
    term *= x * x / (4.0 * order * order);
    sum += term;
  }
  return sum;
}

// A sinc under a Kaiser window, sampled for every phase that output samples can have between input samples.
struct Filter {
  Filter(int64_t from_rate, int64_t to_rate) {
    const int64_t common = std::gcd(from_rate, to_rate);
    up = to_rate / common;
    down = from_rate / common;
    constexpr double kZeroCrossings = 48.0, kShape = 9.0;  // what does not fit the new rate is 90 dB down
    const double pass = std::min(1.0, static_cast<double>(up) / static_cast<double>(down)) * 0.97;
    const double half = kZeroCrossings / pass;
    const double scale = pass / bessel(kShape);
    reach = static_cast<int64_t>(half) + 1;
    taps.resize(static_cast<size_t>(up * (2 * reach + 1)));
    for (int64_t phase = 0; phase < up; ++phase)
      for (int64_t offset = -reach; offset <= reach; ++offset) {
        const double distance = static_cast<double>(offset) - static_cast<double>(phase) / static_cast<double>(up);
        const double share = distance / half;
        const double window = std::abs(share) < 1.0 ? bessel(kShape * std::sqrt(1.0 - share * share)) : 0.0;
        taps[static_cast<size_t>(phase * (2 * reach + 1) + offset + reach)] = sinc(distance * pass) * scale * window;
      }
  }

  const double* of_phase(int64_t phase) const { return &taps[static_cast<size_t>(phase * (2 * reach + 1))]; }

  int64_t up = 1, down = 1, reach = 0;
  std::vector<double> taps;
};

}  // namespace

Result<Sound> read_wav(const std::filesystem::path& path) {
  const Result<std::vector<uint8_t>> read = contents(path);
  if (!read) return read.error();
  const std::span<const uint8_t> bytes = *read;
  if (bytes.size() < 12 || !has_tag(bytes, 0, "RIFF") || !has_tag(bytes, 8, "WAVE"))
    return refusal(ErrorCode::user_input, path.string(), " is not a WAV file; convert it to one");
  Format format;
  std::span<const uint8_t> data;
  for (size_t place = 12; place + 8 <= bytes.size();) {
    const size_t stated = number_at<uint32_t>(bytes, place + 4), body = place + 8;
    const size_t size = std::min(stated, bytes.size() - body);
    if (has_tag(bytes, place, "fmt ") && size >= 16) {
      format = {number_at<uint16_t>(bytes, body), number_at<uint16_t>(bytes, body + 2),
                number_at<uint16_t>(bytes, body + 14), number_at<uint32_t>(bytes, body + 4)};
      if (format.code == kExtensible && size >= 26) format.code = number_at<uint16_t>(bytes, body + 24);
    } else if (has_tag(bytes, place, "data")) {
      data = bytes.subspan(body, size);
    }
    place = body + size + size % 2;
  }
  if (!format.is_known())
    return refusal(ErrorCode::user_input, path.string(), " holds samples of format ", format.code, " with ",
                   format.bits, " bits; PCM of 8 to 32 bits and floats of 32 or 64 are read");
  if (format.rate > kMostRate)
    return refusal(ErrorCode::user_input, path.string(), " has ", format.rate, " samples per second; at most ",
                   kMostRate, " are read");
  Sound sound{format.rate, mixed(data, format)};
  if (sound.samples.empty()) return refusal(ErrorCode::user_input, path.string(), " holds no sound");
  return sound;
}

Result<Sound> cut(Sound sound, const AudioCut& part) {
  const auto rate = static_cast<double>(sound.sampling_rate);
  const double length = static_cast<double>(sound.samples.size()) / rate;
  if (!(part.start >= 0.0) || part.start >= length)
    return refusal(ErrorCode::user_input, "--audio-start ", part.start, " is outside the recording of ", length,
                   " seconds");
  if (part.seconds && !(*part.seconds > 0.0))
    return refusal(ErrorCode::user_input, "--audio-seconds ", *part.seconds, " is not allowed; give a time above 0");
  const auto first = static_cast<size_t>(std::rint(part.start * rate));  // as Python rounds
  size_t count = sound.samples.size() - std::min(first, sound.samples.size());
  if (part.seconds && *part.seconds * rate < static_cast<double>(count))
    count = static_cast<size_t>(std::rint(*part.seconds * rate));
  std::vector<float> kept(sound.samples.begin() + static_cast<std::ptrdiff_t>(first),
                          sound.samples.begin() + static_cast<std::ptrdiff_t>(first + count));
  if (kept.empty()) return refusal(ErrorCode::user_input, "the part of the recording asked for holds no sample");
  return Sound{sound.sampling_rate, std::move(kept)};
}

std::vector<float> resample(std::span<const float> samples, int64_t from_rate, int64_t to_rate) {
  if (from_rate == to_rate) return {samples.begin(), samples.end()};
  const Filter filter(from_rate, to_rate);
  const auto count = static_cast<int64_t>(samples.size());
  const int64_t out_count = (count * filter.up + filter.down - 1) / filter.down;
  std::vector<float> result(static_cast<size_t>(out_count));
  for (int64_t index = 0; index < out_count; ++index) {
    const int64_t centre = index * filter.down / filter.up;
    const double* taps = filter.of_phase(index * filter.down % filter.up);
    const int64_t first = std::max<int64_t>(centre - filter.reach, 0);
    const int64_t last = std::min(centre + filter.reach, count - 1);
    double sum = 0.0;
    for (int64_t place = first; place <= last; ++place)
      sum += static_cast<double>(samples[static_cast<size_t>(place)]) * taps[place - centre + filter.reach];
    result[static_cast<size_t>(index)] = static_cast<float>(sum);
  }
  return result;
}

Result<std::vector<float>> waveform(const Sound& sound, int64_t sampling_rate, int64_t count) {
  const auto to_rate = static_cast<double>(sampling_rate);
  const double seconds = static_cast<double>(sound.samples.size()) / static_cast<double>(sound.sampling_rate);
  if (std::rint(seconds * to_rate) > static_cast<double>(count))
    return refusal(ErrorCode::user_input, "the recording has ", seconds, " seconds, the model takes ",
                   static_cast<double>(count) / to_rate, "; choose a part with --audio-start and --audio-seconds");
  std::vector<float> samples = resample(sound.samples, sound.sampling_rate, sampling_rate);
  samples.resize(static_cast<size_t>(count), 0.0F);
  return samples;
}

}  // namespace fixed_capacity
