#include "fixed_capacity/audio.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

#include "fixed_capacity/wav.h"
#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

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
    // What Python's resampler does, to 68 dB of white noise: all but the last 8 % of the band passes, what does not fit the
    // new rate is 130 dB down.
    constexpr double kZeroCrossings = 96.0, kShape = 13.5, kHalfWay = 0.9568;
    const double pass = std::min(1.0, static_cast<double>(up) / static_cast<double>(down)) * kHalfWay;
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

Status AudioCut::check() const {
  if (start < 0.0 || !std::isfinite(start))
    return refusal(ErrorCode::user_input, "--audio-start must be finite and not negative, got ",
                   short_number(start));
  if (seconds && (*seconds <= 0.0 || !std::isfinite(*seconds)))
    return refusal(ErrorCode::user_input, "--audio-seconds must be finite and positive, got ",
                   short_number(*seconds));
  return {};
}

Result<std::vector<float>> read_mono(const std::filesystem::path& path, const AudioCut& cut, int64_t sampling_rate,
                                     double max_seconds) {
  if (Status checked = cut.check(); !checked) return checked.error();
  Result<WavFile> file = WavFile::open(path);
  if (!file) return file.error();
  const auto rate = static_cast<double>(file->rate()), frames = static_cast<double>(file->frames());
  const double first = std::rint(std::min(cut.start * rate, frames)), rest = frames - first;  // as Python rounds
  const double wanted = cut.seconds ? std::rint(std::min(*cut.seconds * rate, rest)) : rest;
  const auto to_rate = static_cast<double>(sampling_rate);
  if (std::rint(wanted / rate * to_rate) > max_seconds * to_rate)
    return refusal(ErrorCode::user_input, path.string(), " has ", short_number(wanted / rate, "%.1f"),
                   " s of sound, the encoder takes at most ", short_number(max_seconds),
                   " s; cut it with --audio-start and --audio-seconds");
  if (wanted == 0.0)
    return refusal(ErrorCode::user_input, path.string(), " has no sound to transcribe: it lasts ",
                   short_number(frames / rate), " s, --audio-start is ", short_number(cut.start), " s");
  Result<std::vector<float>> samples = file->read(static_cast<int64_t>(first), static_cast<int64_t>(wanted));
  if (!samples || file->rate() == sampling_rate) return samples;
  return resample(*samples, file->rate(), sampling_rate);
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

Result<std::vector<float>> waveform(const std::filesystem::path& path, const AudioCut& cut, int64_t sampling_rate,
                                    int64_t count) {
  const double max_seconds = static_cast<double>(count) / static_cast<double>(sampling_rate);
  Result<std::vector<float>> samples = read_mono(path, cut, sampling_rate, max_seconds);
  if (samples) samples->resize(static_cast<size_t>(count), 0.0F);
  return samples;
}

Result<std::vector<float>> sound(const std::filesystem::path& path, const AudioCut& cut, const Speech& speech) {
  const auto rate = static_cast<double>(speech.sampling_rate);
  Result<std::vector<float>> samples =
      read_mono(path, cut, speech.sampling_rate, static_cast<double>(speech.samples) / rate);
  if (!samples) return samples;
  samples->resize(std::min(samples->size(), static_cast<size_t>(speech.samples)));
  const auto count = static_cast<double>(samples->size()), least = static_cast<double>(speech.positions->window);
  if (count >= least) return samples;
  return refusal(ErrorCode::user_input, path.string(), " has ", short_number(count / rate),
                 " s of sound, the encoder takes at least ", short_number(least / rate), " s; give it more");
}

}  // namespace fixed_capacity
