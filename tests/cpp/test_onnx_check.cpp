// What the files, caches and graphs of an ONNX program are called, and every way in which a graph can contradict its
// manifest.
#include "check.h"
#include "onnx_check.h"
#include "onnx_names.h"

namespace fixed_capacity::testing {
namespace {

CacheEntry cache(const char* name, CacheKind kind, const char* dtype) {
  CacheEntry entry;
  entry.name = name;
  entry.kind = kind;
  entry.slots = 9;
  entry.kv_heads = 2;
  entry.key_dim = 12;
  entry.value_dim = 16;
  entry.dtype = dtype;
  return entry;
}

const Dim kRows{"b", 1, 4};

Manifest seq2seq() {
  Manifest manifest;
  manifest.kind = ModelKind::text_seq2seq;
  manifest.limits.max_batch = 4;
  manifest.limits.max_logit_rows = 2;
  manifest.tokens.vocab_size = 10;
  manifest.memory.cache_bytes = 1000;
  manifest.limits.max_dec = 50;
  manifest.limits.max_step = 3;
  manifest.caches = {cache("self.0", CacheKind::sliding, "float32"), cache("cross.0", CacheKind::cross, "int8")};
  manifest.caches[0].reach = 7;
  manifest.caches[1].reach = 9;
  const MethodEntry encode{"encode", {{"input_ids", "int64", {kRows, {"e", 1, 9}}}}, {{"written", "int64", {kRows}}}};
  const MethodEntry decode{"decode", {{"tokens", "int32", {kRows, {"t", 1, 3}}}}, {{"logits", "float32", {kRows}}}};
  ProgramEntry program;
  program.file = "onnx/decode.onnx";
  program.format = "onnx";
  program.methods = {encode, decode};
  program.planned_bytes = 1000 + 4 * 2 * 10 * 4;
  manifest.programs = {program};
  return manifest;
}

GraphTensor graph_cache(const char* name, const char* type, int64_t last) {
  return {name, type, {"b", int64_t{2}, int64_t{9}, last}};
}

// What both graphs that `seq2seq` describes state of its limits.
const std::vector<GraphLimit> kLimits{{"max_batch", "4"}, {"max_dec", "50"},    {"max_step", "3"},
                                      {"max_logit_rows", "2"}, {"vocab_size", "10"}, {"reach", "7,9"}};

// The graphs that `seq2seq` describes.
GraphSignature encode_graph() {
  return {{{"input_ids", "tensor(int64)", {"b", "e"}},
           graph_cache("past_key_values.0.encoder.key", "tensor(int8)", 16),
           graph_cache("past_key_values.0.encoder.value", "tensor(int8)", 20)},
          {{"written", "tensor(int64)", {"b"}},
           graph_cache("present.0.encoder.key", "tensor(int8)", 16),
           graph_cache("present.0.encoder.value", "tensor(int8)", 20)},
          kLimits};
}

GraphSignature decode_graph() {
  return {{{"tokens", "tensor(int32)", {"b", "t"}},
           graph_cache("past_key_values.0.decoder.key", "tensor(float)", 12),
           graph_cache("past_key_values.0.decoder.value", "tensor(float)", 16),
           graph_cache("past_key_values.0.encoder.key", "tensor(int8)", 16),
           graph_cache("past_key_values.0.encoder.value", "tensor(int8)", 20)},
          {{"logits", "tensor(float)", {"b"}},
           graph_cache("present.0.decoder.key", "tensor(float)", 12),
           graph_cache("present.0.decoder.value", "tensor(float)", 16)},
          kLimits};
}

Faults faults_of(const Manifest& manifest, size_t method, const GraphSignature& stated) {
  return method_faults(manifest, manifest.programs[0], manifest.programs[0].methods[method], stated);
}

}  // namespace

TEST(files_of_a_program_lie_beside_its_decode) {
  const Manifest manifest = seq2seq();
  CHECK(method_path("decode.onnx", "encode") == "encode.onnx");
  CHECK(method_path("a/b/decode.onnx", "encode") == "a/b/encode.onnx");
  CHECK((other_files(manifest.programs[0]) == std::vector<std::string>{"onnx/encode.onnx", "onnx/weights.bin"}));
  ProgramEntry other = manifest.programs[0];
  other.format = "executorch";
  CHECK(other_files(other).empty());
}

TEST(caches_of_a_decoder_alone_are_named_by_their_layer) {
  const Manifest manifest = seq2seq();
  const CacheList caches = read_caches("decode", manifest.caches);
  CHECK(past_names(caches, ModelKind::decoder_only)[1] == "past_key_values.0.value");
  CHECK(present_names(caches, ModelKind::text_seq2seq)[2] == "present.0.encoder.key");
}

TEST(graphs_that_are_as_listed_have_no_faults) {
  const Manifest manifest = seq2seq();
  CHECK(faults_of(manifest, 0, encode_graph()).empty());
  CHECK(faults_of(manifest, 1, decode_graph()).empty());
  CHECK(planned_faults(manifest, manifest.programs[0]).empty());
}

TEST(every_tensor_that_differs_is_a_fault_of_its_own) {
  GraphSignature graph = decode_graph();
  graph.inputs[0].type = "tensor(int64)";
  graph.inputs[2].sizes[2] = int64_t{10};
  graph.outputs[1].name = "present.1.decoder.key";
  const Faults faults = faults_of(seq2seq(), 1, graph);
  CHECK(faults.size() == 3);
  CHECK(faults[0] ==
        "programs[0], decode, inputs: tokens tensor(int32)[b, t] here, tokens tensor(int64)[b, t] in the program");
  CHECK(faults[1] == "programs[0], decode, inputs: past_key_values.0.decoder.value tensor(float)[b, 2, 9, 16] here, "
                     "past_key_values.0.decoder.value tensor(float)[b, 2, 10, 16] in the program");
  CHECK(faults[2].starts_with("programs[0], decode, outputs: present.0.decoder.key "));
}

TEST(a_cache_more_or_less_is_told_by_its_number) {
  Manifest manifest = seq2seq();
  manifest.caches.pop_back();
  const Faults faults = faults_of(manifest, 1, decode_graph());
  CHECK((faults == Faults{"programs[0], decode, inputs: 3 are listed, the program has 5",
                          "programs[0], decode, reach: 7 here, 7,9 in the program"}));
}

TEST(limits_are_those_that_the_graph_was_made_for) {
  Manifest manifest = seq2seq();
  manifest.limits.max_step = 9;
  manifest.caches[0].reach = 1;
  GraphSignature graph = decode_graph();
  graph.limits.erase(graph.limits.begin());
  const Faults faults = faults_of(manifest, 1, graph);
  CHECK((faults == Faults{"programs[0], decode, max_batch: 4 here, nothing in the program",
                          "programs[0], decode, max_step: 9 here, 3 in the program",
                          "programs[0], decode, reach: 1,9 here, 7,9 in the program"}));
}

TEST(versions_are_compared_by_their_numbers) {
  CHECK(is_older("1.26.0", "1.27"));
  CHECK(is_older("1.9.3", "1.27"));
  CHECK(is_older("0.99", "1.27"));
  CHECK(!is_older("1.27.0", "1.27"));
  CHECK(!is_older("1.32.1-dev", "1.27"));
  CHECK(!is_older("2", "1.27"));
}

TEST(a_batch_with_a_size_is_not_one_with_a_name) {
  GraphSignature graph = encode_graph();
  for (GraphTensor& tensor : graph.inputs) tensor.sizes[0] = int64_t{4};
  CHECK(faults_of(seq2seq(), 0, graph).size() == 3);
}

TEST(what_is_planned_are_caches_and_logits_however_large) {
  Manifest manifest = seq2seq();
  manifest.programs[0].planned_bytes += 1;
  CHECK(planned_faults(manifest, manifest.programs[0]) ==
        Faults{"programs[0].planned_bytes: 1321 here, caches and logits take 1320"});
  manifest.tokens.vocab_size = INT64_MAX;
  const Faults faults = planned_faults(manifest, manifest.programs[0]);
  CHECK(faults.size() == 1 && faults[0].ends_with("take 295147905179352826824"));
}

TEST(a_method_without_inputs_is_compared_and_not_read_past_its_end) {
  Manifest manifest = seq2seq();
  manifest.programs[0].methods[1].inputs.clear();
  CHECK(faults_of(manifest, 1, decode_graph()).size() == 2);
}

}  // namespace fixed_capacity::testing
