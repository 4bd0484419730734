#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/safetensors.h>
#include <cdt/core/text/format.h>
#include <cdt/nn/saved_model.h>
#include <cdt/run/parts/claim.h>
#include <cdt/run/train.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/parts/scope.h>
#include <fmt/format.h>

namespace cdt::run {
namespace {

template <class... Arguments>
void call(const std::function<void(Arguments...)>& hook,
          std::type_identity_t<Arguments>... arguments) {
  if (hook) hook(arguments...);
}

/// One call of run::train: a pipeline, and its folder.
class Session {
 public:
  Session(const Options& options, const Hooks& hooks)
      : hooks_(hooks),
        pipeline_(options, study::facts_of(options.data.file), with_folder(hooks)),
        claim_(options_) {}

  /// Everything before the folder is created.
  study::Decision explain() {
    require_sound();
    pipeline_.prepare();
    call(hooks_.on_decision, run_.decision);
    return std::move(run_.decision);
  }

  TrainedRun run() {
    require_sound();
    const bool helps = options_.ranks->rank() > 0;
    if (!helps) claim_.lock_known_folder();
    pipeline_.prepare();
    static_cast<void>(to_json(run_.record));  // throws if something cannot be stored, before it is
                                              // written
    const bool anew = !options_.resume || !resume();
    if (helps) {
      pipeline_.train();
      return {std::move(run_), claim_.folder()};
    }
    call(hooks_.on_decision, run_.decision);
    try {
      claim_.take();
      if (anew) claim_.begin(run_.record, run_.problem.preprocess);
    } catch (...) {
      claim_.give_back();
      throw;
    }
    call(hooks_.on_problem, run_.problem);
    if (anew) pipeline_.analyze();
    pipeline_.train();
    write();
    return {std::move(run_), claim_.folder()};
  }

 private:
  /// The caller's hooks, extended by writing to the folder.
  Hooks with_folder(Hooks hooks) {
    hooks.on_preflight = [this](const analysis::Preflight& found) {
      claim_.add(run_.record, [&](const RunFolder& staged, RunRecord&) {
        if (!found.curvature) staged.write_spectrum(found);
      });
      call(hooks_.on_preflight, found);
    };
    hooks.checkpoint = [this](const SafeTensors& checkpoint) {
      save(checkpoint);
      call(hooks_.checkpoint, checkpoint);
    };
    return hooks;
  }

  void require_sound() const {
    require_fitting(options_);
    if (!options_.resume) study::require_read(options_);
  }

  /// Resumes the folder's run; false if it was interrupted before its first step, and starts again.
  bool resume() {
    const std::filesystem::path checkpoint = claim_.folder().checkpoint();
    const bool there = path_exists(checkpoint);
    options_.ranks->require_same("checkpoint", there ? checksum_of_file(checkpoint) : "none");
    const RunRecord saved = claim_.folder().read_record();
    require_same(saved);
    if (!there) return false;
    claim_.folder().require_intact(saved, checkpoint);
    take_over(saved);
    try {
      pipeline_.restore(load_safetensors(checkpoint));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(c10::str(checkpoint.string(), ": ", error.what()));
    }
    const auto last = pipeline_.ended_at();
    if (last && run_.decision.training.steps > options_of(saved).training.steps) {
      pipeline_.note(
          fmt::format("held-out errors had stopped falling at point {}: a higher limit "
                      "changes nothing",
                      *last));
    }
    return true;
  }

  void require_same(const RunRecord& saved) const {
    const std::string folder = claim_.folder().path().string();
    std::vector<std::string> own;  // accepted by earlier versions
    for (const SettingValue& setting : saved.settings) own.push_back(setting.name);
    study::require_read(options_, own);
    require_same_run(options_, saved.settings, saved.defaults, folder);
    CDT_REQUIRE(saved.data.checksum == run_.problem.checksum, options_.data.file, ": the ",
                options_.data.is_pictures ? "pictures have" : "file has",
                " changed since the run started");
  }

  /// Keeps the record's statements about the folder's model, until it has another.
  void take_over(const RunRecord& saved) {
    RunRecord& record = run_.record;
    record.analysis = saved.analysis;
    record.analysis_text = saved.analysis_text;
    if (saved.seconds) record.seconds->analysis = saved.seconds->analysis;
    record.result = saved.result;
    record.in_words = saved.in_words;
    record.errors = saved.errors;
    record.prediction = saved.prediction;
    record.files = saved.files;
    if (!options_.tune) return;
    CDT_REQUIRE(saved.tuned, claim_.folder().path().string(),
                ": cannot be resumed; it was tuned, and its run.json does not say to what");
    pipeline_.follow(*saved.tuned);
  }

  void save(const SafeTensors& checkpoint) {
    try {
      claim_.show(run_.record, [&](const RunFolder& staged, RunRecord&) {
        save_safetensors(staged.checkpoint(), checkpoint);
      });
    } catch (const std::exception& error) {
      call(hooks_.on_warning,
           fmt::format("no checkpoint could be written, training goes on: {}", error.what()));
    }
  }

  void write() {
    const auto earlier = run_.record.result;
    pipeline_.calibrate();
    pipeline_.expect();
    pipeline_.finish();
    if (run_.result.diverged() && earlier && path_exists(claim_.folder().model())) {
      call(hooks_.on_warning,
           fmt::format("{} keeps the model and the results that it had after {}",
                       claim_.folder().path().string(), count_of(earlier->steps, "step")));
      return;
    }
    claim_.show(run_.record, [&](const RunFolder& staged, RunRecord&) {
      staged.write_history(run_.result.history);
      staged.write_preprocess(run_.problem.preprocess);
      claim_.drop_report();
      if (!run_.predictions.empty()) write_model(staged);
    });
    try {
      claim_.folder().write_report(claim_.mode_of_report());
    } catch (const std::exception& error) {
      call(hooks_.on_warning, fmt::format("the run has no report: {}", error.what()));
    }
  }

  void write_model(const RunFolder& staged) const {
    int64_t member = 0;
    for (const nn::Network& network : run_.predictor.members) {
      nn::save_model(staged.model(++member), network);
    }
    if (run_.intervals) staged.write_intervals(*run_.intervals);
    const data::Table& table = run_.problem.table;
    staged.write_predictions(run_.problem.preprocess, run_.predictions, options_.csv_safe,
                             table.pictures ? table.find(study::kPictureColumn) : nullptr);
  }

  const Hooks& hooks_;
  study::Pipeline pipeline_;
  study::Run& run_ = pipeline_.run();
  const Options& options_ = run_.decision.options;
  Claim claim_;
};

}  // namespace

study::Decision explain(const Options& options, const Hooks& hooks) {
  return Session(options, hooks).explain();
}

TrainedRun train(const Options& options, const Hooks& hooks) {
  return Session(options, hooks).run();
}

}  // namespace cdt::run
