#include "text_helper.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "fixed_capacity/token_ids.h"
#include "fixed_capacity/words.h"

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

// What a command prints, its first word looked for where the shell looks.
Result<std::string> output_of(std::vector<std::string>& command) {
  int ends[2];
  if (pipe(ends) != 0) return refusal(ErrorCode::user_input, "no pipe can be opened", kAdvice);
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);  // the command has its copy of one end as its output
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string printed = failure == 0 ? read_all(ends[0]) : std::string();
  close(ends[0]);
  if (failure != 0) return refusal(ErrorCode::user_input, "run-model was not found to make ids of --prompt", kAdvice);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return printed;
  return refusal(ErrorCode::user_input, "run-model tokens could not make ids of --prompt", kAdvice);
}

}  // namespace

Result<std::vector<std::vector<int64_t>>> ids_of_texts(const std::filesystem::path& bundle,
                                                       const std::vector<std::string>& texts) {
  // The files have been checked, or were not to be.
  std::vector<std::string> words_given{"run-model", "tokens", "--no-verify"};
  for (const std::string& text : texts) words_given.insert(words_given.end(), {"--prompt", text});
  words_given.insert(words_given.end(), {"--", bundle.string()});
  const Result<std::string> printed = output_of(words_given);
  if (!printed) return printed.error();
  std::vector<std::vector<int64_t>> rows;
  for (std::string_view rest = *printed; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    Result<std::vector<int64_t>> ids = parse_ids(line, "what run-model tokens printed");
    if (!ids) return ids.error();
    rows.push_back(std::move(ids).value());
  }
  if (rows.size() == texts.size()) return rows;
  return refusal(ErrorCode::user_input, "run-model tokens printed ", rows.size(), " rows for ", texts.size(),
                 " prompts", kAdvice);
}

}  // namespace fixed_capacity
