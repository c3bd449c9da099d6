// The manifest's reader: what it gives, and that the largest numbers are compared exactly. That it refuses what the
// Python reader refuses, in the same words, is shown by tests/contract/test_cpp_reader.py.
#include <string>

#include "check.h"
#include "files.h"
#include "fixed_capacity/manifest.h"

namespace fixed_capacity::testing {
namespace {

// Whether `text` is refused with this code and a message with these words.
bool refused(const std::string& text, ErrorCode code, const std::string& part) {
  const Result<Manifest> outcome = from_json(text, "here");
  const bool as_wanted =
      !outcome && outcome.error().code == code && outcome.error().message.find(part) != std::string::npos;
  if (!as_wanted) std::printf("  got %s\n", outcome ? "no refusal" : outcome.error().message.c_str());
  return as_wanted;
}

bool invalid(const std::string& text, const std::string& part) {
  return refused(text, ErrorCode::manifest_invalid, part);
}

std::string tiny_with(const std::string& from, const std::string& to) { return replaced(corpus("tiny"), from, to); }

}  // namespace

TEST(every_part_of_a_manifest_is_read) {
  const Result<Manifest> read = from_json(corpus("speech"));
  CHECK(read.ok());
  if (!read) return;
  const Manifest& manifest = *read;
  CHECK(manifest.format_version == 1 && name_of(manifest.kind) == "speech_seq2seq");
  CHECK(manifest.source.model == "tiny" && !manifest.source.revision && manifest.source.seed == 0);
  CHECK(manifest.source.random_weights && manifest.source.vocab_size == 64);
  CHECK(manifest.recipe.backends == std::vector<std::string>{"xnnpack"} && manifest.recipe.max_enc == 5);
  CHECK(manifest.limits.max_batch == 2 && manifest.limits.max_step == 4 && manifest.limits.max_logit_rows == 3);
  CHECK(manifest.limits.source_shape == (std::vector<int64_t>{3, 10}));
  CHECK(manifest.caches.size() == 3 && manifest.caches[1].kind == CacheKind::sliding);
  CHECK(name_of(manifest.caches[2].kind) == "cross" && manifest.caches[2].slots == 5);
  const ProgramEntry& program = manifest.programs.at(0);
  CHECK(program.file == "model.xnnpack.pte" && program.operator_library_required && program.planned_bytes > 500);
  CHECK(program.methods.size() == 3 && program.methods[1].inputs[0].dims[0].name == "batch");
  CHECK(!program.methods[1].inputs[0].dims[1].name && program.methods[1].inputs[0].dims[1].maximum == 3);
  CHECK(manifest.tokens.eos == std::vector<int64_t>{1} && manifest.tokens.pad == 0);
  CHECK(manifest.tokens.forced[0].position == 3 && manifest.tokens.forced[0].token == 7);
  CHECK(!manifest.generation.max_new_tokens && manifest.quantization == "none");
  CHECK(manifest.memory.activation_bytes == 500 && manifest.memory.note == "one program");
  CHECK(manifest.packages[0].name == "torch" && manifest.files[1].role == "tokenizer");
}

TEST(an_assistant_and_what_it_takes_are_read) {
  const Result<Manifest> read = from_json(corpus("assisted"));
  CHECK(read.ok() && read->assistant && read->assistant->hidden_size == 6);
  CHECK(read.ok() && read->programs[0].methods[1].name == "draft" && read->programs[0].methods[0].outputs.size() == 2);
  const Result<Manifest> none = from_json(corpus("tiny"));
  CHECK(none.ok() && !none->assistant);
}

TEST(a_fault_names_its_place_and_several_are_listed_at_once) {
  CHECK(invalid(tiny_with("\"max_batch\": 2", "\"max_batch\": \"8\""),
                "here: recipe.max_batch: expected an integer >= 1, got \"8\"; the file was edited or damaged"));
  CHECK(invalid(tiny_with("\"max_batch\": 2", "\"extra\": 2"),
                "here: 2 faults; the file was edited or damaged: export the model again\n  recipe.max_batch: missing "
                "key\n  recipe.extra: unknown key, allowed are model, max_batch, "));
  CHECK(refused("{\"format_version\": 2}", ErrorCode::format_too_new,
                "here: format_version is 2, this version reads up to 1; upgrade fixed-capacity"));
}

TEST(what_is_not_strict_json_is_refused) {
  CHECK(invalid("", "here: not JSON: the text ends too early at line 1, column 1"));
  CHECK(invalid("{\n\"a\": ?}", "not JSON: unexpected text at line 2, column 6"));
  CHECK(invalid("{} {}", "not JSON: "));
  CHECK(invalid(std::string("{}\0", 3), "not JSON: "));
  CHECK(invalid("\xEF\xBB\xBF{}", "not JSON: Unexpected UTF-8 BOM"));
  CHECK(invalid("{\"a\": 1, \"a\": 2}", "key \"a\" is given twice in one object"));
  CHECK(invalid("[NaN]", "holds NaN, which is not a JSON number"));
  CHECK(invalid("{\"a\": -Infinity}", "holds -Infinity, which is not a JSON number"));
  CHECK(invalid("{\"a\": \"\xC0\xAF\"}", "not UTF-8 text (byte 7)"));
  CHECK(invalid("{\"a\": \"\xED\xA0\x80\"}", "not UTF-8 text (byte 7)"));
  CHECK(invalid("{\"a\": \"\xE2\x82", "not UTF-8 text (byte 7)"));
  CHECK(invalid(std::string(100'000, '['), "nested too deeply"));
  CHECK(invalid(std::string(5'000, '9'), "holds a number of too many digits"));
}

TEST(the_largest_numbers_are_compared_exactly) {
  const std::string largest = "9223372036854775807", beyond = "9223372036854775808";
  CHECK(invalid(tiny_with("\"max_draft\": 2", "\"max_draft\": " + largest),
                "limits.max_logit_rows: expected " + beyond + " (max_draft + 1), got 3"));
  CHECK(invalid(tiny_with("\"max_draft\": 2", "\"max_draft\": " + beyond),
                "recipe.max_draft: expected an integer >= 0, got " + beyond));
  CHECK(invalid(tiny_with("\"key_dim\": 8", "\"key_dim\": " + largest),
                "caches[0].size_bytes: expected 2803905099203851847760 (max_batch * kv_heads * slots * "
                "36893488147419103260 for key_dim and value_dim in float32), got 4864"));
  CHECK(invalid(tiny_with("\"format_version\": 1", "\"format_version\": -" + beyond),
                "format_version: expected an integer >= 1, got -" + beyond));
  CHECK(refused(tiny_with("\"format_version\": 1", "\"format_version\": 1" + beyond), ErrorCode::format_too_new,
                "format_version is 1" + beyond));
}

}  // namespace fixed_capacity::testing
