#include "fixed_capacity/wav.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "fixed_capacity/words.h"
#include "guarded.h"

namespace fixed_capacity {
namespace {

constexpr uint16_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;
constexpr int64_t kMostRate = 384000;  // frames per second; a filter for more takes gigabytes
constexpr int kMostChunks = 1000;      // before the samples: gigabytes of empty chunks are no header
constexpr size_t kPieceBytes = 1 << 16;
constexpr int64_t kRiffBytes = 12, kChunkBytes = 8;

using Bytes = std::span<const uint8_t>;

// A little-endian number at `place`; the caller knows that it lies within the bytes.
template <typename Number>
Number number_at(Bytes bytes, size_t place) {
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

bool has_tag(Bytes bytes, size_t place, const char* tag) { return std::memcmp(&bytes[place], tag, 4) == 0; }

bool is_known(const WavFormat& format) {
  const bool is_pcm = format.code == kPcm && (format.bits == 8 || format.bits == 16 || format.bits == 24 ||
                                              format.bits == 32);
  const bool is_float = format.code == kFloat && (format.bits == 32 || format.bits == 64);
  return (is_pcm || is_float) && format.channels > 0 && format.rate > 0;
}

float sample_at(Bytes bytes, size_t place, const WavFormat& format) {
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

// Appends the frames of `bytes` as one channel.
void mix(Bytes bytes, const WavFormat& format, std::vector<float>& samples) {
  for (size_t frame = 0; frame < bytes.size(); frame += format.frame_bytes()) {
    float sum = 0.0F;
    for (size_t channel = 0; channel < format.channels; ++channel)
      sum += sample_at(bytes, frame + channel * format.sample_bytes(), format);
    samples.push_back(sum / static_cast<float>(format.channels));
  }
}

// Fills `bytes` from `place` on; false where the file ends before.
bool read_at(std::ifstream& file, int64_t place, std::span<uint8_t> bytes) {
  file.clear();
  file.seekg(place);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return file.gcount() == static_cast<std::streamsize>(bytes.size());
}

// The format that a chunk at `place` of `size` bytes states; nothing for one that is too short.
WavFormat format_at(std::ifstream& file, int64_t place, int64_t size) {
  std::array<uint8_t, 26> chunk{};
  if (size < 16 || !read_at(file, place, std::span(chunk).first(static_cast<size_t>(std::min<int64_t>(size, 26)))))
    return {};
  WavFormat format{number_at<uint16_t>(chunk, 0), number_at<uint16_t>(chunk, 2), number_at<uint16_t>(chunk, 14),
                   number_at<uint32_t>(chunk, 4)};
  if (format.code == kExtensible && size >= 26) format.code = number_at<uint16_t>(chunk, 24);
  return format;
}

Error no_sound(const std::filesystem::path& path) {
  return refusal(ErrorCode::user_input, path.string(), " cannot be read as sound; give a WAV file");
}

}  // namespace

Result<WavFile> WavFile::open(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return refusal(ErrorCode::user_input, "there is no audio file ", path.string());
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!std::filesystem::is_regular_file(path, error) || !file) return no_sound(path);
  const auto bytes = static_cast<int64_t>(file.tellg());
  WavFile opened(path, std::move(file));
  if (Status read = opened.read_header(bytes); !read) return read.error();
  return opened;
}

// Goes from chunk to chunk as far as the samples. Stated sizes are held against what the file has; a recorder that was
// not ended has left both of its sizes at nothing, and its samples are all that follows.
Status WavFile::read_header(int64_t file_bytes) {
  std::array<uint8_t, kRiffBytes> head{};
  if (!read_at(file_, 0, head) || !has_tag(head, 0, "RIFF") || !has_tag(head, 8, "WAVE")) return no_sound(path_);
  const bool was_ended = number_at<uint32_t>(head, 4) != kChunkBytes;
  int64_t place = kRiffBytes, data_bytes = 0;
  for (int chunk = 0; data_start_ == 0; ++chunk) {
    if (chunk == kMostChunks || !read_at(file_, place, std::span(head).first(kChunkBytes))) return no_sound(path_);
    const int64_t stated = number_at<uint32_t>(head, 4), body = place + kChunkBytes;
    const int64_t rest = std::max<int64_t>(file_bytes - body, 0), size = std::min(stated, rest);
    if (has_tag(head, 0, "fmt ")) format_ = format_at(file_, body, size);
    if (has_tag(head, 0, "data")) {
      data_start_ = body;
      data_bytes = stated == 0 && !was_ended ? rest : size;
    }
    place = body + stated + stated % 2;
  }
  if (format_.code == 0) return no_sound(path_);  // no format stands before the samples
  if (!is_known(format_))
    return refusal(ErrorCode::user_input, path_.string(), " holds samples of format ", format_.code, " with ",
                   format_.bits, " bits, ", format_.channels, " channels and ", format_.rate,
                   " samples per second; PCM of 8 to 32 bits and floats of 32 or 64 are read");
  if (format_.rate > kMostRate)
    return refusal(ErrorCode::user_input, path_.string(), " has ", format_.rate, " samples per second; at most ",
                   kMostRate, " are read");
  frames_ = data_bytes / static_cast<int64_t>(format_.frame_bytes());
  return {};
}

Result<std::vector<float>> WavFile::read(int64_t first, int64_t count) {
  return guarded("a sound of this length", [&]() -> Result<std::vector<float>> {
    const auto frame = static_cast<int64_t>(format_.frame_bytes());
    const int64_t most = std::max<int64_t>(static_cast<int64_t>(kPieceBytes) / frame, 1);
    std::vector<uint8_t> piece(static_cast<size_t>(std::min(most, count) * frame));
    std::vector<float> samples;
    samples.reserve(static_cast<size_t>(count));
    for (int64_t done = 0; done < count; done += most) {
      const std::span<uint8_t> part = std::span(piece).first(static_cast<size_t>(std::min(most, count - done) * frame));
      if (!read_at(file_, data_start_ + (first + done) * frame, part))
        return refusal(ErrorCode::user_input, path_.string(), " cannot be read to its end");
      mix(part, format_, samples);
    }
    return samples;
  });
}

}  // namespace fixed_capacity
