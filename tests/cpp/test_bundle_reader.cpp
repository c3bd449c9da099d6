// Bundles on disk. That damage of every sort is told as the Python reader tells it is shown by
// tests/contract/test_cpp_reader.py.
#include <string>

#include "check.h"
#include "files.h"
#include "fixed_capacity/bundle_reader.h"

namespace fixed_capacity::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "model.xnnpack.pte";
constexpr const char* kProgramText = "not a real program, but sixty-four bytes that stand for one here";

// The bundle of tests/contract/tiny_bundle.py.
struct TinyBundle : Directory {
  explicit TinyBundle(const std::string& name) : Directory(name) {
    write(path / "manifest.json", corpus("tiny"));
    write(path / kProgram, kProgramText);
    write(path / "tokenizer" / "tokenizer.json", "{\"vocabulary\": []}");
  }
};

template <typename Outcome>
bool refused(const Outcome& outcome, ErrorCode code, const std::string& message) {
  const bool as_wanted = !outcome && outcome.error().code == code && outcome.error().message == message;
  if (!as_wanted) std::printf("  got %s\n", outcome ? "no refusal" : outcome.error().message.c_str());
  return as_wanted;
}

}  // namespace

TEST(a_well_formed_bundle_gives_its_program_and_files) {
  const TinyBundle tiny("fixed_capacity_whole.bundle");
  const Result<Bundle> bundle = read_bundle(tiny.path);
  CHECK(bundle.ok());
  if (!bundle) return;
  CHECK(*bundle->program() == &bundle->manifest.programs[0] && *bundle->program("xnnpack") == *bundle->program());
  CHECK(contents(*bundle->file(kProgram)) == kProgramText);
  CHECK(refused(bundle->file("it's"), ErrorCode::user_input,
                "this bundle lists no file \"it's\"; it lists model.xnnpack.pte, tokenizer/tokenizer.json"));
  CHECK(refused(bundle->program("portable"), ErrorCode::user_input,
                "this bundle has no 'portable' program, it has xnnpack; give --backend xnnpack, or export the model "
                "with --backend portable"));
  CHECK(refused(bundle->program("a\nb"), ErrorCode::user_input,
                "this bundle has no 'a\\nb' program, it has xnnpack; give --backend xnnpack"));
}

TEST(a_changed_byte_is_seen_where_hashes_are_checked_and_a_missing_one_always) {
  const TinyBundle tiny("fixed_capacity_changed.bundle");
  write(tiny.path / kProgram, std::string(64, 'x'));
  CHECK(read_bundle(tiny.path, false).ok());
  CHECK(refused(read_bundle(tiny.path), ErrorCode::bundle_corrupt,
                tiny.path.string() + ": model.xnnpack.pte has changed: its SHA-256 is 7ce100971f64..., the manifest "
                                     "says 0082a8a82cd2...; copy the bundle again or export the model again"));
  write(tiny.path / kProgram, std::string(63, 'x'));
  CHECK(refused(read_bundle(tiny.path, false), ErrorCode::bundle_corrupt,
                tiny.path.string() + ": model.xnnpack.pte has 63 bytes, the manifest says 64; copy the bundle again or "
                                     "export the model again"));
}

TEST(links_are_followed_within_the_bundle_and_not_out_of_it) {
  const TinyBundle tiny("fixed_capacity_links.bundle");
  const Directory outside("fixed_capacity_outside");
  fs::rename(tiny.path / kProgram, tiny.path / "blob");
  fs::create_symlink("tokenizer/../blob", tiny.path / kProgram);
  fs::create_directory_symlink(tiny.path, outside.path / "alias");
  CHECK(read_bundle(tiny.path).ok());
  CHECK(read_bundle(outside.path / "alias").ok());
  fs::rename(tiny.path / "blob", outside.path / "blob");
  fs::remove(tiny.path / kProgram);
  fs::create_symlink(outside.path / "blob", tiny.path / kProgram);
  CHECK(refused(read_bundle(tiny.path), ErrorCode::bundle_corrupt,
                tiny.path.string() + ": model.xnnpack.pte is a link that leads out of the bundle; copy the bundle "
                                     "again or export the model again"));
}

TEST(a_path_without_a_bundle_is_refused) {
  const Directory empty("fixed_capacity_empty");
  const std::string root = empty.path.string(), give = "; give the directory that export-model wrote";
  CHECK(refused(read_bundle(empty.path / "no"), ErrorCode::bundle_missing,
                root + "/no: there is no such directory" + give));
  CHECK(refused(read_bundle(empty.path), ErrorCode::bundle_missing, root + ": there is no manifest.json in it" + give));
  write(empty.path / "file", "");
  CHECK(refused(read_bundle(empty.path / "file"), ErrorCode::bundle_missing,
                root + "/file: a bundle is a directory, this is a file" + give));
}

}  // namespace fixed_capacity::testing
