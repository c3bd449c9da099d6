// The index of n-grams against a search through plain lists.
#include "check.h"
#include "fixed_capacity/ngram_index.h"
#include "random.h"

namespace fixed_capacity::testing {
namespace {

using Tokens = std::vector<int64_t>;

// At most `count` tokens after the last place at which the longest tail of `grown` stands, in it or else in `first`.
Tokens searched(const Tokens& first, const Tokens& grown, size_t longest, size_t count) {
  for (size_t size = std::min(longest, grown.size()); size > 0; --size)
    for (const Tokens* piece : {&grown, &first})
      for (size_t start = piece->size(); start-- > 0;) {
        if (start + size >= piece->size()) continue;
        const auto from = piece->begin() + static_cast<std::ptrdiff_t>(start);
        if (!std::equal(from, from + static_cast<std::ptrdiff_t>(size), grown.end() - static_cast<std::ptrdiff_t>(size)))
          continue;
        const size_t end = std::min(start + size + count, piece->size());
        return {from + static_cast<std::ptrdiff_t>(size), piece->begin() + static_cast<std::ptrdiff_t>(end)};
      }
  return {};
}

}  // namespace

TEST(what_follows_is_what_a_search_finds) {
  Random random(41);
  for (int round = 0; round < 200; ++round) {
    const int64_t vocab = random.integer(1, 6), longest = random.integer(1, 4);
    Tokens first, grown;
    for (int64_t index = random.integer(0, 20); index > 0; --index) first.push_back(random.integer(0, vocab));
    NgramIndex index(longest, 20, 60);
    index.add_piece(first);
    while (grown.size() < 60) {
      Tokens more;
      for (int64_t count = random.integer(1, 5); count > 0 && grown.size() + more.size() < 60; --count)
        more.push_back(random.integer(0, vocab));
      grown.insert(grown.end(), more.begin(), more.end());
      index.extend(more);
      CHECK(index.length() == static_cast<int64_t>(grown.size()));
      const int64_t count = random.integer(1, 8);
      const std::span<const int64_t> found = index.following(count);
      CHECK(Tokens(found.begin(), found.end()) ==
            searched(first, grown, static_cast<size_t>(longest), static_cast<size_t>(count)));
    }
  }
}

TEST(a_cleared_index_knows_nothing) {
  NgramIndex index(3, 4, 10);
  const Tokens tokens{1, 2, 1, 2};
  index.extend(tokens);
  CHECK(!index.following(3).empty());
  index.clear();
  CHECK(index.length() == 0 && index.following(3).empty());
  index.extend(Tokens{1});
  CHECK(index.following(3).empty());
}

}  // namespace fixed_capacity::testing
