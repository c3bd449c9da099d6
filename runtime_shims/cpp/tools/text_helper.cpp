#include "text_helper.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "fixed_capacity/words.h"
#include "input.h"

extern char** environ;

namespace fixed_capacity {
namespace {

constexpr const char* kAdvice = "; install fixed-capacity's Python package, or give token ids with --ids";

// Everything that the other end of a pipe writes.
std::string read_all(int pipe) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t count; (count = read(pipe, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<size_t>(count));
  return text;
}

}  // namespace

Result<std::vector<int64_t>> ids_of_text(const std::filesystem::path& bundle, const std::string& text) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return refusal(ErrorCode::user_input, "no pipe can be opened", kAdvice);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::string directory = bundle.string(), prompt = text;
  std::string program = "run-model", verb = "tokens", option = "--prompt";
  std::array<char*, 6> arguments{program.data(), verb.data(), directory.data(), option.data(), prompt.data(), nullptr};
  pid_t child = 0;
  const int failure = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  const std::string printed = failure == 0 ? read_all(ends[0]) : std::string();
  close(ends[0]);
  if (failure != 0) return refusal(ErrorCode::user_input, "run-model was not found to make ids of --prompt", kAdvice);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return refusal(ErrorCode::user_input, "run-model tokens could not make ids of --prompt", kAdvice);
  std::string_view line = printed;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return parse_ids(line, "what run-model tokens printed");
}

}  // namespace fixed_capacity
