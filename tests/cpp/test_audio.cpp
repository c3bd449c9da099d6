// Parts of sound files, what is too long, and resampling against sines.
#include <cmath>
#include <limits>
#include <numbers>

#include "check.h"
#include "fixed_capacity/audio.h"
#include "fixed_capacity/stats.h"
#include "wavs.h"

namespace fixed_capacity::testing {
namespace {

// A file of 16 bits per sample with the numbers 0, 1, 2, ... as its frames.
std::string ramp(uint32_t rate, int count) {
  std::string data;
  for (int frame = 0; frame < count; ++frame) put(data, static_cast<int16_t>(frame));
  return wav({1, 1, 16, rate, {}, {}, {}}, data);
}

// The frame's number that a sample stands for.
int number_of(float sample) { return static_cast<int>(sample * 32768.0F); }

template <typename Value>
bool refused(const Result<Value>& found, const std::string& end) {
  const bool as_wanted = !found && found.error().message.ends_with(end);
  if (!as_wanted) std::printf("  %s\n", found ? "accepted" : found.error().message.c_str());
  return as_wanted;
}

std::vector<float> sine(double hertz, int64_t rate, int64_t count) {
  std::vector<float> samples;
  for (int64_t index = 0; index < count; ++index)
    samples.push_back(static_cast<float>(
        std::sin(2.0 * std::numbers::pi * hertz * static_cast<double>(index) / static_cast<double>(rate))));
  return samples;
}

}  // namespace

TEST(a_cut_is_the_part_that_was_asked_for) {
  const Directory directory("fixed_capacity_sounds");
  const auto path = written(directory, ramp(10, 20));
  const auto part = [&](double start, std::optional<double> seconds) { return read_mono(path, {start, seconds}, 10); };
  CHECK(part(0.5, 1.0)->size() == 10 && number_of((*part(0.5, 1.0))[0]) == 5);
  CHECK(part(1.5, 9.0)->size() == 5 && part(0.0, 1e308)->size() == 20 && part(0.0, std::nullopt)->size() == 20);
  const std::string nothing = "sound.wav has no sound to transcribe: it lasts 2 s, --audio-start is ";
  CHECK(refused(part(2.0, std::nullopt), nothing + "2 s") && refused(part(1e308, std::nullopt), nothing + "1e+308 s"));
  CHECK(refused(part(0.0, 0.01), nothing + "0 s"));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  CHECK(refused(part(-1.0, std::nullopt), "--audio-start must be finite and not negative, got -1"));
  CHECK(refused(part(kNan, std::nullopt), "--audio-start must be finite and not negative, got nan"));
  CHECK(refused(part(0.0, 0.0), "--audio-seconds must be finite and positive, got 0"));
  CHECK(refused(read_mono(written(directory, ramp(10, 0)), {}, 10), "it lasts 0 s, --audio-start is 0 s"));
}

TEST(what_both_rates_hold_passes_and_the_rest_does_not) {
  for (const auto& [from, to] : {std::pair<int64_t, int64_t>{48000, 16000}, {44100, 16000}, {8000, 16000}}) {
    const std::vector<float> low = resample(sine(1000.0, from, from), from, to), want = sine(1000.0, to, to);
    CHECK(low.size() == want.size());
    float worst = 0.0F;
    for (size_t index = 500; index + 500 < want.size(); ++index)
      worst = std::max(worst, std::abs(low[index] - want[index]));
    CHECK(worst < 1e-3F);
    if (from < to) continue;
    float most = 0.0F;
    const std::vector<float> high = resample(sine(11000.0, from, from), from, to);
    for (size_t index = 500; index + 500 < high.size(); ++index) most = std::max(most, std::abs(high[index]));
    CHECK(most < 1e-4F);
  }
}

TEST(a_waveform_is_followed_by_silence_and_never_cut_off) {
  const Directory directory("fixed_capacity_sounds");
  const auto path = written(directory, ramp(16000, 100));
  const Result<std::vector<float>> padded = waveform(path, {}, 16000, 150);
  CHECK(padded.ok() && padded->size() == 150 && number_of((*padded)[99]) == 99 && (*padded)[100] == 0.0F);
  CHECK(!waveform(path, {}, 16000, 99) && waveform(path, {0.0, 99.0 / 16000.0}, 16000, 99).ok());
  const auto fine = written(directory, ramp(44100, 44101));  // a third of a sample more than a second at 16000
  CHECK(waveform(fine, {}, 16000, 16000).ok() && !waveform(fine, {}, 16000, 15999));
}

TEST(a_file_that_is_too_long_is_refused_by_its_header_and_not_read) {
  const Directory directory("fixed_capacity_sounds");
  const auto path = written(directory, wav({1, 1, 16, 16000, 0xFFFFFFFF, {}, {}}, ""));
  const auto header = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, header + 3'200'000'000);  // holes
  const int64_t before = peak_rss_bytes();
  CHECK(refused(waveform(path, {}, 16000, 480000),
                "sound.wav has 100000.0 s of sound, the encoder takes at most 30 s; cut it with --audio-start and "
                "--audio-seconds"));
  CHECK(waveform(path, {99980.0, std::nullopt}, 16000, 480000).ok() && waveform(path, {5.0, 30.0}, 16000, 480000).ok());
  CHECK(peak_rss_bytes() - before < 64 << 20);
  const auto slow = written(directory, ramp(1, 1'000'000));  // 64 gigabytes, were it resampled first
  CHECK(!waveform(slow, {}, 16000, 480000));
}

}  // namespace fixed_capacity::testing
