// The decoding loop takes no memory after its sessions are open: counted from the first round of a request to its end, with
// stop strings that are looked for and with a number of drafts that changes.
#include "allocations.h"
#include "check.h"
#include "fixed_capacity/adaptive.h"
#include "fixed_capacity/speculative.h"
#include "toy_program.h"

namespace fixed_capacity::testing {
namespace {

constexpr Toy kToy{16, 0x5EED0001, 0x5EED0002, 0x5EED0003, 0xFFFFFFFF};
constexpr ToyShape kShape{3, 200, 4, 5, 6, std::nullopt};

Session toy_session(bool is_draft) {
  TokenRules rules;
  rules.vocab_size = kToy.vocab;
  Manifest manifest = toy_manifest(kShape, rules);
  auto program = std::make_unique<ToyProgram>(kToy, manifest.limits, is_draft);
  return std::move(Session::open(std::move(manifest), std::move(program))).value();
}

// Every token is a letter.
class Letters final : public TextPieces {
 public:
  std::string_view bytes_of(int64_t token, bool) const override {
    return std::string_view("abcdefghijklmnop").substr(static_cast<size_t>(token), 1);
  }
};

// Notes how much had been allocated when the first round was over, and when each later one was.
class Counter final : public DecodingListener {
 public:
  void on_round(std::span<const RowRound> outcomes) override {
    if (rounds++ == 0) first = allocations();
    last = allocations();
    for (const RowRound& outcome : outcomes) drafts += outcome.drafts();
  }

  size_t first = 0, last = 0;
  int64_t rounds = 0, drafts = 0;
};

Counter decode(const SamplingSettings& settings, Proposer* proposer, DraftLength& length) {
  const Letters letters;
  const StopStrings stops = std::move(StopStrings::make({"qqq", "zz"}, letters)).value();  // letters of no token
  Session session = toy_session(false);
  Counter counter;
  Decoding how;
  how.settings = settings;
  how.proposer = proposer;
  how.drafts = &length;
  how.stops = &stops;
  how.listener = &counter;
  Decoder decoder(session, how);
  const std::vector<int64_t> first{3, 9, 4, 3, 9}, second{7}, third{10, 11, 12, 13, 10, 11, 12};
  const std::vector<TokenRow> prompts{first, second, third};
  CHECK(decoder.generate(prompts).ok());
  return counter;
}

SamplingSettings sampled() {
  SamplingSettings settings;
  settings.temperature = 1.2;
  settings.top_k = 9;
  settings.top_p = 0.95;
  settings.min_p = 0.01;
  settings.repetition_penalty = 1.1;
  settings.no_repeat_ngram = 6;
  settings.seed = 5;
  return settings;
}

}  // namespace

TEST(no_round_of_plain_decoding_allocates) {
  for (const SamplingSettings& settings : {SamplingSettings(), sampled()}) {
    FixedDrafts none(0);
    const Counter counter = decode(settings, nullptr, none);
    CHECK(counter.rounds > 100);
    CHECK(counter.last == counter.first);
  }
}

TEST(no_round_of_speculation_allocates) {
  for (const SamplingSettings& settings : {SamplingSettings(), sampled()}) {
    PromptLookup lookup(toy_session(false).limits());
    Session draft_session = toy_session(true);
    DraftModel draft(draft_session, settings, draft_session.manifest().tokens, 4);
    for (Proposer* proposer : {static_cast<Proposer*>(&lookup), static_cast<Proposer*>(&draft)}) {
      FixedDrafts fixed(4);
      AdaptiveDrafts adaptive({{1.0, 1.0, 1.1, 1.1, 1.2}, 0.1}, 4);
      for (DraftLength* length : {static_cast<DraftLength*>(&fixed), static_cast<DraftLength*>(&adaptive)}) {
        const Counter counter = decode(settings, proposer, *length);
        CHECK(counter.rounds > 20 && counter.drafts > 10);
        CHECK(counter.last == counter.first);
      }
    }
  }
}

TEST(the_peak_is_that_of_this_process) {
  constexpr size_t kBytes = 64 << 20;
  const int64_t before = peak_rss_bytes();
  const std::vector<char> used(kBytes, 1);
  CHECK(before > 0 && peak_rss_bytes() >= static_cast<int64_t>(kBytes) && peak_rss_bytes() >= before);
}

TEST(an_allocation_would_have_been_counted) {
  const size_t before = allocations();
  { const std::vector<int> vector(10); }
  CHECK(allocations() == before + 1);
  {
    const AllocationPause pause;
    const std::vector<int> vector(10);
  }
  CHECK(allocations() == before + 1);
}

}  // namespace fixed_capacity::testing
