// Sound files of every format, and resampling against sines.
#include <cmath>
#include <cstring>
#include <fstream>
#include <numbers>

#include "check.h"
#include "files.h"
#include "fixed_capacity/audio.h"

namespace fixed_capacity::testing {
namespace {

template <typename Number>
void put(std::string& bytes, Number value) {
  char raw[sizeof(Number)];
  std::memcpy(raw, &value, sizeof(value));
  bytes.append(raw, sizeof(value));
}

struct WavFormat {
  uint16_t code, channels, bits;
  uint32_t rate;
};

// A file with `data` as its samples, and a chunk that readers must skip.
std::string wav(const WavFormat& format, const std::string& data) {
  std::string body = "WAVELIST";
  put(body, uint32_t{3});
  body += "odd";
  body.push_back('\0');  // chunks begin at even places
  body += "fmt ";
  put(body, uint32_t{16});
  put(body, format.code);
  put(body, format.channels);
  put(body, format.rate);
  put(body, uint32_t{format.rate * format.channels * format.bits / 8u});
  put(body, static_cast<uint16_t>(format.channels * format.bits / 8u));
  put(body, format.bits);
  body += "data";
  put(body, static_cast<uint32_t>(data.size()));
  body += data;
  std::string bytes = "RIFF";
  put(bytes, static_cast<uint32_t>(body.size()));
  return bytes + body;
}

std::filesystem::path written(const Directory& directory, const std::string& bytes) {
  const std::filesystem::path path = directory.path / "sound.wav";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

bool near(float got, float want) { return std::abs(got - want) < 1e-4F; }

std::vector<float> sine(double hertz, int64_t rate, int64_t count) {
  std::vector<float> samples;
  for (int64_t index = 0; index < count; ++index)
    samples.push_back(static_cast<float>(
        std::sin(2.0 * std::numbers::pi * hertz * static_cast<double>(index) / static_cast<double>(rate))));
  return samples;
}

}  // namespace

TEST(samples_of_every_format_are_read_and_channels_averaged) {
  const Directory directory("fixed_capacity_sounds");
  std::string eight{static_cast<char>(255), static_cast<char>(0)}, sixteen, four_and_twenty, whole, single, wide;
  put(sixteen, int16_t{16384});
  put(sixteen, int16_t{-32768});
  four_and_twenty = std::string("\x00\x00\x40\x00\x00\x80", 6);
  put(whole, int32_t{1 << 30});
  put(whole, std::numeric_limits<int32_t>::min());
  put(single, 0.5F);
  put(single, -1.0F);
  put(wide, 0.5);
  put(wide, -1.0);
  const std::pair<WavFormat, std::string> cases[] = {{{1, 1, 16, 8000}, sixteen}, {{1, 1, 24, 8000}, four_and_twenty},
                                                     {{1, 1, 32, 8000}, whole},   {{3, 1, 32, 8000}, single},
                                                     {{3, 1, 64, 8000}, wide}};
  for (const auto& [format, data] : cases) {
    const Result<Sound> sound = read_wav(written(directory, wav(format, data)));
    CHECK(sound.ok() && sound->sampling_rate == 8000 && sound->samples.size() == 2);
    if (sound) CHECK(near(sound->samples[0], 0.5F) && near(sound->samples[1], -1.0F));
  }
  const Result<Sound> bytes = read_wav(written(directory, wav({1, 1, 8, 8000}, eight)));
  CHECK(bytes.ok() && near(bytes->samples[0], 127.0F / 128.0F) && near(bytes->samples[1], -1.0F));
  const Result<Sound> stereo = read_wav(written(directory, wav({1, 2, 16, 8000}, sixteen)));
  CHECK(stereo.ok() && stereo->samples.size() == 1 && near(stereo->samples[0], -0.25F));
}

TEST(what_is_no_sound_is_refused) {
  const Directory directory("fixed_capacity_sounds");
  CHECK(!read_wav(directory.path / "none.wav"));
  const Result<Sound> folder = read_wav(directory.path);
  CHECK(!folder.ok() && folder.error().message.ends_with("is a directory; give a WAV file"));
  CHECK(!read_wav(written(directory, wav({1, 1, 16, 4'294'967'295}, "abcd"))));
  CHECK(!read_wav(written(directory, "")));
  CHECK(!read_wav(written(directory, "RIFF....WAVE")));
  CHECK(!read_wav(written(directory, std::string(5000, 'x'))));
  CHECK(!read_wav(written(directory, wav({1, 1, 12, 8000}, "abc"))));
  CHECK(!read_wav(written(directory, wav({1, 0, 16, 8000}, "abcd"))));
  CHECK(!read_wav(written(directory, wav({1, 1, 16, 8000}, ""))));
  const std::string whole = wav({1, 1, 16, 8000}, "abcdefgh");
  for (size_t length = 0; length < whole.size(); ++length)
    (void)read_wav(written(directory, whole.substr(0, length)));  // truncated anywhere: no crash, the sanitizers see
}

TEST(a_cut_is_the_part_that_was_asked_for) {
  const Sound sound{10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}};
  CHECK(cut(sound, {0.5, 1.0})->samples.size() == 10 && cut(sound, {0.5, 1.0})->samples[0] == 5.0F);
  CHECK(cut(sound, {1.5, 9.0})->samples.size() == 5);
  CHECK(cut(sound, {})->samples.size() == 20);
  CHECK(!cut(sound, {2.0, std::nullopt}) && !cut(sound, {-1.0, std::nullopt}) && !cut(sound, {0.0, 0.0}));
  CHECK(!cut(sound, {0.0, 0.01}));
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
  const Sound sound{16000, std::vector<float>(100, 0.5F)};
  const Result<std::vector<float>> padded = waveform(sound, 16000, 150);
  CHECK(padded.ok() && padded->size() == 150 && (*padded)[99] == 0.5F && (*padded)[100] == 0.0F);
  CHECK(!waveform(sound, 16000, 99));
  const Sound fine{44100, std::vector<float>(44101, 0.5F)};  // a third of a sample more than a second at 16000
  CHECK(waveform(fine, 16000, 16000).ok() && !waveform(fine, 16000, 15999));
  CHECK(!waveform({1, std::vector<float>(1'000'000)}, 16000, 480000));  // 64 gigabytes, were it resampled first
}

}  // namespace fixed_capacity::testing
