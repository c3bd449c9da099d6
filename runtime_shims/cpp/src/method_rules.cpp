// The methods of a program must take and give what the limits say: nothing that a runtime sizes its memory by is stated
// twice with two values. The twin of runtime_shims/contract/method_rules.py.
#include <algorithm>
#include <map>
#include <utility>

#include "manifest_rules.h"
#include "shown.h"

namespace fixed_capacity {
namespace {

// Any size in `minimum`..`maximum`; `source` is the key of the manifest that says so.
struct ExpectedDim {
  int64_t minimum, maximum;
  const char* source;
};

// An input or output; no name where the contract leaves it to the model.
struct ExpectedTensor {
  std::optional<std::string> name;
  std::string dtype;
  std::vector<ExpectedDim> dims;
};

// A method that every program of a kind must have, tensors in call order.
struct ExpectedMethod {
  std::string name;
  std::vector<ExpectedTensor> inputs, outputs;
};

// The encoder's input; a limit that is missing is a fault of the kind and bounds nothing here.
ExpectedTensor expected_source(const Manifest& manifest, const ExpectedDim& rows) {
  const Limits& limits = manifest.limits;
  if (const SoundPositions* positions = sound_positions(manifest))
    return {"waveform",
            "float32",
            {rows,
             {positions->least_hops(), positions->hops(manifest.speech->samples), "hops of speech.samples"},
             {positions->stride, positions->stride, "speech.positions.stride"}}};
  if (manifest.kind != ModelKind::speech_seq2seq)
    return {std::nullopt, manifest.recipe.index_dtype, {rows, {1, limits.max_enc.value_or(1), "limits.max_enc"}}};
  ExpectedTensor features{std::nullopt, "float32", {rows}};
  for (const int64_t size : limits.source_shape.value_or(std::vector<int64_t>{}))
    features.dims.push_back({size, size, "limits.source_shape"});
  return features;
}

// The method that makes the encoder's input from a waveform; a program may do without.
constexpr const char* kFeatures = "features";
// What `encode` is told of each row where it takes sound of any length, in place of `enc_lengths`.
constexpr const char* kSampleLengths = "sample_lengths";
// The method of an assistant; it reads caches and writes none.
constexpr const char* kDraft = "draft";

// `decode` and `draft` of a model with an assistant, and the hidden states that they exchange.
std::vector<ExpectedMethod> assisted(int64_t width, ExpectedMethod decode) {
  const ExpectedDim one{1, 1, "one token per row"}, states{width, width, "assistant.hidden_size"};
  const ExpectedTensor logits = decode.outputs[0];
  const ExpectedDim rows = logits.dims[0], logit_rows = logits.dims[1], words_dim = logits.dims[2];
  ExpectedTensor token = decode.inputs[0];
  token.dims = {rows, one};
  const ExpectedTensor last{"hidden", "float32", {rows, states}};
  const ExpectedMethod draft{kDraft,
                             {token, last, decode.inputs[1], decode.inputs[2]},
                             {{"logits", "float32", {rows, one, words_dim}}, {"next_hidden", "float32", {rows, states}}}};
  decode.outputs.push_back({"hidden", "float32", {rows, logit_rows, states}});
  return {decode, draft};
}

// What the limits, the vocabulary and the kind say about the methods of an ExecuTorch program. `features` and `draft` are
// optional: every program has them when `speech` (without `positions`) and `assistant` are given, and none otherwise.
std::vector<ExpectedMethod> expected_methods(const Manifest& manifest) {
  const Limits& limits = manifest.limits;
  const int64_t vocab_size = manifest.tokens.vocab_size;
  const ExpectedDim rows{1, limits.max_batch, "limits.max_batch"};
  const ExpectedDim step{1, limits.max_step, "limits.max_step"};
  const ExpectedDim logit_rows{1, limits.max_logit_rows, "limits.max_logit_rows"};
  const ExpectedDim words_dim{vocab_size, vocab_size, "tokens.vocab_size"};
  const std::string& index = manifest.recipe.index_dtype;
  const ExpectedTensor lengths{"enc_lengths", index, {rows}};
  ExpectedMethod decode{"decode",
                        {{"input_ids", index, {rows, step}},
                         {"positions", index, {rows}},
                         {"step_lengths", index, {rows}},
                         {"logit_rows", index, {rows, logit_rows}}},
                        {{"logits", "float32", {rows, logit_rows, words_dim}}}};
  if (manifest.kind == ModelKind::decoder_only)
    return manifest.assistant ? assisted(manifest.assistant->hidden_size, decode) : std::vector{decode};
  decode.inputs.push_back(lengths);
  const ExpectedTensor written{std::nullopt, index, {rows}};
  ExpectedTensor source = expected_source(manifest, rows);
  const bool follows_sound = sound_positions(manifest) != nullptr;
  const ExpectedTensor samples_of_rows{kSampleLengths, index, {rows}};
  const ExpectedMethod encode{"encode", {source, follows_sound ? samples_of_rows : lengths}, {written}};
  if (!manifest.speech || follows_sound) return {encode, decode};
  const ExpectedDim samples{manifest.speech->samples, manifest.speech->samples, "speech.samples"};
  source.name = kFeatures;
  return {{kFeatures, {{"waveform", "float32", {rows, samples}}}, {source}}, encode, decode};
}

template <typename AnyDim>
std::string sizes(const AnyDim& dim) {
  if (dim.minimum == dim.maximum) return std::to_string(dim.maximum);
  return words(dim.minimum, " to ", dim.maximum);
}

void check_bounds(const std::string& place, const std::vector<Dim>& dims, const std::vector<ExpectedDim>& expected,
                  Report& report) {
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const Dim& dim = dims[axis];
    const ExpectedDim& wanted = expected[axis];
    if (dim.minimum == wanted.minimum && dim.maximum == wanted.maximum) continue;
    report.add(place, ", dim ", axis, ": expected ", sizes(wanted), " (", wanted.source, "), got ", sizes(dim));
  }
}

void check_tensors(const std::string& method, const char* list, const std::vector<TensorEntry>& tensors,
                   const std::vector<ExpectedTensor>& expected, Report& report) {
  const std::string path = words(method, ", ", list);
  if (tensors.size() != expected.size())
    return report.add(path, ": expected ", expected.size(), ", got ", tensors.size());
  for (size_t index = 0; index < tensors.size(); ++index) {
    const TensorEntry& tensor = tensors[index];
    const ExpectedTensor& wanted = expected[index];
    if (wanted.name && tensor.name != *wanted.name) {
      report.add(path, ": expected ", *wanted.name, " in place ", index, ", got ", tensor.name);
      continue;
    }
    const std::string place = words(method, ", ", tensor.name);
    if (tensor.dtype != wanted.dtype) report.add(place, ": expected ", wanted.dtype, ", got ", tensor.dtype);
    if (tensor.dims.size() != wanted.dims.size())
      report.add(place, ": expected ", wanted.dims.size(), " dims, got ", tensor.dims.size());
    else
      check_bounds(place, tensor.dims, wanted.dims, report);
  }
}

void check_signatures(const std::string& path, const ProgramEntry& program, const std::vector<ExpectedMethod>& expected,
                      Report& report) {
  for (const ExpectedMethod& wanted : expected) {
    const auto method = std::find_if(program.methods.rbegin(), program.methods.rend(),
                                     [&](const MethodEntry& entry) { return entry.name == wanted.name; });
    if (method == program.methods.rend()) continue;  // told already
    const std::string place = words(path, ", ", method->name);
    check_tensors(place, "inputs", method->inputs, wanted.inputs, report);
    check_tensors(place, "outputs", method->outputs, wanted.outputs, report);
  }
}

// The range that each named dimension of a program had where it came first.
using Ranges = std::map<std::string, std::pair<int64_t, int64_t>>;

std::string in_brackets(const std::pair<int64_t, int64_t>& range) {
  return words("(", range.first, ", ", range.second, ")");
}

// Bounds are in order, a static dimension has one size, and a name means one range per program.
void check_dims(const std::string& place, const TensorEntry& tensor, Ranges& ranges, Report& report) {
  for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    const Dim& dim = tensor.dims[axis];
    const std::string path = words(place, ", ", tensor.name, ", dim ", axis);
    const std::pair<int64_t, int64_t> bounds(dim.minimum, dim.maximum);
    if (dim.minimum > dim.maximum) {
      report.add(path, ": minimum ", dim.minimum, " is above maximum ", dim.maximum);
    } else if (!dim.name) {
      if (dim.minimum != dim.maximum) report.add(path, ": a dimension of several sizes needs a name");
    } else {
      const auto& before = ranges.emplace(*dim.name, bounds).first->second;
      if (before != bounds)
        report.add(path, ": ", *dim.name, " is ", in_brackets(bounds), ", but ", in_brackets(before), " before");
    }
  }
}

template <typename Entry>
std::vector<std::string> quoted_names(const std::vector<Entry>& entries) {
  return texts(entries, [](const Entry& entry) { return quoted(entry.name); });
}

// Refuses a method that the manifest rules out; `reason` says how.
void check_absent(const std::string& path, const ProgramEntry& program, const char* name, const char* reason,
                  Report& report) {
  if (std::any_of(program.methods.begin(), program.methods.end(), [&](const auto& it) { return it.name == name; }))
    report.add(path, ".methods: there is a \"", name, "\", but ", reason);
}

void check_names(const std::string& path, const ProgramEntry& program, const std::vector<ExpectedMethod>& expected,
                 const Manifest& manifest, Report& report) {
  const std::vector<MethodEntry>& methods = program.methods;
  report.add_all(repeated(path + ".methods, names", quoted_names(methods)));
  for (const ExpectedMethod& wanted : expected)
    if (std::none_of(methods.begin(), methods.end(), [&](const auto& method) { return method.name == wanted.name; }))
      report.add(path, ".methods: there is no \"", wanted.name, "\"");
  if (!manifest.speech) check_absent(path, program, kFeatures, "speech is null", report);
  if (!manifest.assistant) check_absent(path, program, kDraft, "assistant is null", report);
  if (sound_positions(manifest) != nullptr)
    check_absent(path, program, kFeatures, "speech.positions is given", report);
  for (size_t number = 0; number < methods.size(); ++number) {
    const std::string method = words(path, ".methods[", number, "]");
    report.add_all(repeated(method + ".inputs, names", quoted_names(methods[number].inputs)));
    report.add_all(repeated(method + ".outputs, names", quoted_names(methods[number].outputs)));
  }
}

}  // namespace

void check_methods(const Manifest& manifest, Report& report) {
  const std::vector<ExpectedMethod> expected = expected_methods(manifest);
  for (size_t index = 0; index < manifest.programs.size(); ++index) {
    const ProgramEntry& program = manifest.programs[index];
    const std::string path = words("programs[", index, "]");
    check_names(path, program, expected, manifest, report);
    Ranges ranges;
    for (const MethodEntry& method : program.methods) {
      const std::string place = words(path, ", ", method.name);
      for (const TensorEntry& tensor : method.inputs) check_dims(place, tensor, ranges, report);
      for (const TensorEntry& tensor : method.outputs) check_dims(place, tensor, ranges, report);
    }
    check_signatures(path, program, expected, report);
  }
}

}  // namespace fixed_capacity
