#include "drafting.h"

#include "fixed_capacity/assistant_drafts.h"
#include "fixed_capacity/draft_bundle.h"
#include "fixed_capacity/loading.h"
#include "fixed_capacity/words.h"

namespace fixed_capacity {
namespace {

Status check_options(const Manifest& target, const RunnerOptions& options) {
  const Speculate mode = options.speculate;
  const bool has_assistant = target.assistant.has_value();
  const std::optional<std::string> own_draft = has_assistant ? std::nullopt : target.recipe.draft;
  const int64_t most = target.limits.max_draft;
  const bool has_draft = options.draft_bundle.has_value();
  std::string faults;
  const auto refuse_if = [&faults](bool is_wrong, const std::string& fault) {
    if (is_wrong) faults += words(faults.empty() ? "" : "; ", fault);
  };
  refuse_if(mode == Speculate::draft && !own_draft && !has_draft,
            "--speculate draft needs --draft-bundle, or a bundle exported with --draft; one with an assistant drafts with "
            "--speculate mtp");
  refuse_if(mode == Speculate::self && own_draft != kSelfInt4,
            words("--speculate self needs a bundle exported with --draft ", kSelfInt4));
  refuse_if(has_draft && mode != Speculate::draft && mode != Speculate::automatic,
            words("--draft-bundle is not used with --speculate ", name_of(mode), "; give --speculate draft or auto"));
  refuse_if(options.num_drafts && (mode == Speculate::off || mode == Speculate::automatic),
            words("--num-drafts is not used with --speculate ", name_of(mode),
                  "; give --speculate prompt-lookup, draft, self or mtp"));
  refuse_if(mode != Speculate::off && most == 0, "the bundle verifies no drafts; export it with --max-draft");
  refuse_if((mode == Speculate::off || most > 0) && options.num_drafts && *options.num_drafts > most,
            words("--num-drafts ", options.num_drafts.value_or(0), ": the bundle verifies at most ", most,
                  "; export it with a larger --max-draft"));
  refuse_if(mode == Speculate::mtp && !has_assistant,
            "--speculate mtp needs a bundle exported with --draft mtp, or with the name of an assistant");
  if (faults.empty()) return {};
  return refusal(ErrorCode::user_input, faults);
}

}  // namespace

Status read_draft(const Bundle& target, const RunnerOptions& options, Drafting& drafting) {
  if (Status checked = check_options(target.manifest, options); !checked) return checked;
  for (const Speculate mode : {Speculate::off, Speculate::prompt_lookup, Speculate::mtp})
    if (options.speculate == mode) return {};
  if (options.draft_bundle) {
    Result<Bundle> given = read_bundle(*options.draft_bundle, options.check_hashes);
    if (!given) return given.error();
    drafting.bundle = std::move(given).value();
  } else {
    Result<std::optional<Bundle>> own = target.draft(options.check_hashes);
    if (!own) return own.error();
    drafting.bundle = std::move(own).value();
  }
  if (!drafting.bundle) return {};
  return check_draft_bundle(target, *drafting.bundle, !options.draft_bundle);
}

Status open_drafting(const RunnerOptions& options, int64_t rows, Session& session, Drafting& drafting) {
  if (options.speculate == Speculate::off) return {};
  const int64_t most = session.limits().max_draft;
  const bool is_assisted =
      options.speculate == Speculate::mtp ||
      (options.speculate == Speculate::automatic && !drafting.bundle && session.manifest().assistant);
  if (is_assisted) {
    drafting.proposer = std::make_unique<AssistantDrafts>(session, options.settings, most);
  } else if (drafting.bundle) {
    // A draft inside the bundle has the programs that the bundle has.
    const std::optional<std::string> backend = options.draft_bundle ? std::nullopt : options.backend;
    Result<Session> opened = open_session(*drafting.bundle, backend, options.threads);
    if (!opened) return opened.error();
    drafting.session.emplace(std::move(opened).value());
    drafting.proposer =
        std::make_unique<DraftModel>(*drafting.session, options.settings, session.manifest().tokens, most);
  } else {
    drafting.proposer = std::make_unique<PromptLookup>(session.limits());
  }
  if (options.speculate != Speculate::automatic) {
    drafting.length = std::make_unique<FixedDrafts>(options.num_drafts.value_or(most));
    return {};
  }
  Result<SpeedModel> speed =
      measure(session, rows, drafting.session ? &*drafting.session : nullptr, is_assisted);
  if (!speed) return speed.error();
  auto adaptive = std::make_unique<AdaptiveDrafts>(std::move(speed).value(), most);
  drafting.adaptive = adaptive.get();
  drafting.length = std::move(adaptive);
  return {};
}

}  // namespace fixed_capacity
