// Sound files of every format, headers that lie, and files of gigabytes of which little is read.
#include <cmath>
#include <limits>

#include "check.h"
#include "fixed_capacity/stats.h"
#include "fixed_capacity/wav.h"
#include "wavs.h"

namespace fixed_capacity::testing {
namespace {

bool near(float got, float want) { return std::abs(got - want) < 1e-4F; }

// All frames of a file, or why there are none.
Result<std::vector<float>> all(const std::filesystem::path& path) {
  Result<WavFile> file = WavFile::open(path);
  if (!file) return file.error();
  return file->read(0, file->frames());
}

int64_t frames_of(const Directory& directory, const std::string& bytes) {
  const Result<WavFile> file = WavFile::open(written(directory, bytes));
  return file ? file->frames() : -1;
}

bool refused(const Directory& directory, const std::string& bytes, const std::string& part) {
  const auto found = all(written(directory, bytes));
  const bool as_wanted = !found && found.error().code == ErrorCode::user_input &&
                         found.error().message.find("sound.wav " + part) != std::string::npos;
  if (!as_wanted) std::printf("  %s\n", found ? "accepted" : found.error().message.c_str());
  return as_wanted;
}

const std::string kNoSound = "cannot be read as sound; give a WAV file";

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
  const std::pair<Header, std::string> cases[] = {{{1, 1, 16, 8000, {}, {}, {}}, sixteen},
                                                  {{1, 1, 24, 8000, {}, {}, {}}, four_and_twenty},
                                                  {{1, 1, 32, 8000, {}, {}, {}}, whole},
                                                  {{3, 1, 32, 8000, {}, {}, {}}, single},
                                                  {{3, 1, 64, 8000, {}, {}, {}}, wide}};
  for (const auto& [header, data] : cases) {
    const auto found = all(written(directory, wav(header, data)));
    CHECK(found.ok() && found->size() == 2);
    if (found) CHECK(near((*found)[0], 0.5F) && near((*found)[1], -1.0F));
  }
  const auto bytes = all(written(directory, wav({1, 1, 8, 8000, {}, {}, {}}, eight)));
  CHECK(bytes.ok() && near((*bytes)[0], 127.0F / 128.0F) && near((*bytes)[1], -1.0F));
  const auto stereo = all(written(directory, wav({1, 2, 16, 8000, {}, {}, {}}, sixteen)));
  CHECK(stereo.ok() && stereo->size() == 1 && near((*stereo)[0], -0.25F));
}

TEST(what_is_no_sound_is_refused) {
  const Directory directory("fixed_capacity_sounds");
  const auto missing = WavFile::open(directory.path / "none.wav"), folder = WavFile::open(directory.path);
  CHECK(!missing && missing.error().message.starts_with("there is no audio file "));
  CHECK(!folder && folder.error().message.ends_with(kNoSound));
  CHECK(refused(directory, "", kNoSound) && refused(directory, "RIFF....WAVE", kNoSound));
  CHECK(refused(directory, std::string(5000, 'x'), kNoSound));
  CHECK(refused(directory, "RIFF....WAVE" + chunk("data", "abcd"), kNoSound));
  CHECK(refused(directory, wav({1, 1, 12, 8000, {}, {}, {}}, "abc"), "holds samples of format 1 with 12 bits"));
  CHECK(refused(directory, wav({7, 1, 8, 8000, {}, {}, {}}, "abc"), "holds samples of format 7 with 8 bits"));
  CHECK(refused(directory, wav({3, 1, 16, 8000, {}, {}, {}}, "abcd"), "holds samples of format 3 with 16 bits"));
  CHECK(refused(directory, wav({1, 0, 16, 8000, {}, {}, {}}, "abcd"), "holds samples of format 1 with 16 bits, 0 ch"));
  CHECK(refused(directory, wav({1, 1, 16, 0, {}, {}, {}}, "abcd"), "holds samples of format 1 with 16 bits, 1 chan"));
  CHECK(refused(directory, wav({1, 1, 16, 4'294'967'295, {}, {}, {}}, "ab"), "has 4294967295 samples per second"));
  const std::string whole = wav({1, 1, 16, 8000, {}, {}, {}}, "abcdefgh");
  for (size_t length = 0; length < whole.size(); ++length)
    (void)all(written(directory, whole.substr(0, length)));  // truncated anywhere: no crash, the sanitizers see
}

TEST(sizes_that_lie_are_held_against_what_the_file_has) {
  const Directory directory("fixed_capacity_sounds");
  const auto claims = [](std::optional<uint32_t> data, std::optional<uint32_t> riff, std::string before = {}) {
    return wav({1, 1, 16, 8000, data, riff, std::move(before)}, "abcdefgh");
  };
  CHECK(frames_of(directory, claims({}, {})) == 4);
  CHECK(frames_of(directory, claims(1000, {})) == 4 && frames_of(directory, claims(0xFFFFFFFF, 0xFFFFFFFF)) == 4);
  CHECK(frames_of(directory, claims(4, {})) == 2 && frames_of(directory, claims(5, 0)) == 2);
  CHECK(frames_of(directory, claims(0, {})) == 0 && frames_of(directory, claims(0, 8)) == 4);
  CHECK(refused(directory, claims({}, {}, "LIST\xFF\xFF\xFF\xFF"), kNoSound));
  std::string chunks;
  for (int count = 0; count < 100; ++count) chunks += chunk("JUNK", "");
  CHECK(frames_of(directory, claims({}, {}, chunks)) == 4);
  while (chunks.size() < 100'000) chunks += chunk("JUNK", "");
  CHECK(refused(directory, claims({}, {}, chunks), kNoSound));
}

TEST(of_a_file_of_gigabytes_only_the_part_that_is_asked_for_is_read) {
  const Directory directory("fixed_capacity_sounds");
  const auto path = written(directory, wav({1, 2, 16, 8000, 0xFFFFFFFF, {}, {}}, ""));
  const auto header = static_cast<int64_t>(std::filesystem::file_size(path));
  constexpr int64_t kFrames = 800'000'000, kPlace = 700'000'000;  // of 4 bytes
  std::filesystem::resize_file(path, static_cast<uintmax_t>(header + 4 * kFrames));  // nothing is stored: holes
  std::string samples;
  for (const int16_t sample : {16384, 0, -32768, -32768}) put(samples, sample);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(header + 4 * kPlace);
  file << samples << std::flush;
  const int64_t before = peak_rss_bytes();
  Result<WavFile> opened = WavFile::open(path);
  CHECK(opened.ok() && opened->frames() == kFrames);
  const auto found = opened->read(kPlace - 1, 100'000);
  CHECK(found.ok() && found->size() == 100'000);
  CHECK((*found)[0] == 0.0F && (*found)[1] == 0.25F && (*found)[2] == -1.0F && (*found)[3] == 0.0F);
  CHECK(peak_rss_bytes() - before < 64 << 20);
}

}  // namespace fixed_capacity::testing
