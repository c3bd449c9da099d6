// The examples of FIPS 180-4, whole and in pieces.
#include <string>
#include <string_view>

#include "check.h"
#include "fixed_capacity/random_stream.h"
#include "fixed_capacity/sha256.h"

namespace fixed_capacity::testing {
namespace {

std::string hash_in_pieces(std::string_view text, size_t piece, Sha256 hash = Sha256()) {
  const std::span<const unsigned char> bytes(reinterpret_cast<const unsigned char*>(text.data()), text.size());
  for (size_t start = 0; start < bytes.size(); start += piece)
    hash.update(bytes.subspan(start, std::min(piece, bytes.size() - start)));
  return hash.finish();
}

}  // namespace

TEST(the_published_examples_have_their_hashes) {
  CHECK(hash_in_pieces("", 1) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash_in_pieces("abc", 3) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash_in_pieces("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hash_in_pieces(std::string(1'000'000, 'a'), 4096) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(pieces_of_any_size_give_the_same_hash) {
  for (size_t length = 0; length < 200; ++length) {
    const std::string text(length, 'x');
    const std::string whole = hash_in_pieces(text, length + 1);
    for (const size_t piece : {1, 7, 55, 56, 63, 64, 65}) CHECK(hash_in_pieces(text, piece) == whole);
  }
}

TEST(every_variant_of_this_machine_gives_the_same_hash) {
  const std::vector<Sha256Blocks> variants = sha256_variants();
  CHECK(!variants.empty());
  std::string text;
  for (uint64_t index = 0; index < 3000; ++index) text.push_back(static_cast<char>(mix(index) & 0xFF));
  for (const Sha256Blocks variant : variants) {
    CHECK(hash_in_pieces("abc", 3, Sha256(variant)) ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (const size_t length : {63, 64, 65, 127, 128, 1000, 3000})
      for (const size_t piece : {61, 64, 3000}) {
        const std::string_view part = std::string_view(text).substr(0, length);
        CHECK(hash_in_pieces(part, piece, Sha256(variant)) == hash_in_pieces(part, length, Sha256(variants.back())));
      }
  }
}

}  // namespace fixed_capacity::testing
