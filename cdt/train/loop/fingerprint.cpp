#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/json.h>
#include <cdt/train/loop/fingerprint.h>

#include <array>

namespace cdt::train {
namespace {

using torch::Tensor;

constexpr int64_t kProbed = 8;
/// Devices and thread counts round differently, and outputs may be small differences of large
/// terms; another function differs by its own size.
constexpr double kSameFunction = 1e-2;

std::string checksum_of(const Tensor& values) {
  if (!values.defined()) return "none";
  const Tensor plain = values.detach().cpu().contiguous();
  Checksum sum;
  sum.add(c10::str(plain.sizes(), plain.scalar_type()));
  sum.add({static_cast<const char*>(plain.data_ptr()), plain.nbytes()});
  return sum.text();
}

std::string exactly(double value) { return nlohmann::json(value).dump(); }

std::string in_words(const Schedule& schedule) {
  if (schedule.kind == Schedule::Kind::kConstant) return to_string(schedule.kind);
  return c10::str(to_string(schedule.kind), " ", exactly(schedule.decay), " ", schedule.period);
}

/// Names for messages.
constexpr std::array kDataNames{"training inputs x", "training labels y", "validation inputs",
                                "validation labels", "sample weights",    "output weights"};

/// Outputs [b·n_L] of the first samples, float64, on the CPU; undefined: see `probe`.
Tensor first_outputs(const Setup& setup) {
  const Tensor& x = setup.data.x;
  if (setup.data.ranks->several()) return {};  // each rank has its own rows
  if (!setup.options.method->controlled || x.size(0) < 2) return {};
  const torch::NoGradGuard no_graph;
  const int64_t count = std::min(kProbed, x.size(0));
  const Tensor outputs = setup.model.forward(x.narrow(0, 0, count));
  return outputs.to(torch::kCPU, torch::kFloat64).reshape({-1}).contiguous();
}

}  // namespace

std::string fingerprint(const Setup& setup) {
  const TrainOptions& options = setup.options;
  nlohmann::ordered_json own;
  if (setup.data.ranks->size() == 1) {  // otherwise each rank has its own rows
    const TrainData& data = setup.data;
    const std::array<Tensor, kDataNames.size()> all{
        data.x, data.y, data.x_val, data.y_val, data.sample_weights, data.output_weights};
    for (size_t i = 0; i < all.size(); ++i) own[kDataNames[i]] = checksum_of(all[i]);
  }
  own["loss"] = to_string(options.loss);
  own["smoothing"] = exactly(smoothing_of(options));
  own["learning rate"] = options.learning_rate ? exactly(*options.learning_rate) : "automatic";
  own["schedule"] = in_words(options.schedule);
  own["q"] = exactly(options.q);
  own["p"] = exactly(options.p);
  own["shape"] = exactly(options.shape);
  own["controller"] = options.controller ? "one's own" : options.design;
  own["relinearize"] = options.relinearize ? to_string(*options.relinearize) : "automatic";
  own["weight decay"] = exactly(options.weight_decay);
  own["batch"] = std::to_string(options.batch);
  if (options.batch > 0) {
    own["reshuffle"] = options.reshuffle ? "on" : "off";
    own["seed"] = std::to_string(options.seed);
  }
  if (options.method->path) {
    own["path"] = c10::str(exactly(options.path.start), " ", exactly(options.path.factor));
  }
  return own.dump();
}

void require_same_run(const std::string& saved, const std::string& own) {
  const JsonValue before = parse_json(saved, "the checkpoint's fingerprint");
  const JsonValue now = parse_json(own, "the fingerprint");
  for (const auto& [name, value] : now.members()) {
    const std::string was = before[name].text_or(value.text());
    const bool data = std::find(kDataNames.begin(), kDataNames.end(), name) != kDataNames.end();
    CDT_REQUIRE(
        was == value.text(), "the checkpoint belongs to another run: its ", name,
        data ? " differ from those given here" : c10::str(": ", was, ", here: ", value.text()),
        "; restore into a trainer of the same data and options");
  }
}

std::string probe(const Setup& setup) {
  const Tensor outputs = first_outputs(setup);
  if (!outputs.defined()) return {};
  const double* first = outputs.data_ptr<double>();
  // JSON has no infinity: it becomes null, in a run that diverged.
  return nlohmann::json(std::vector<double>(first, first + outputs.numel())).dump();
}

void require_same_model(const std::string& saved, const Setup& setup) {
  const Tensor own = first_outputs(setup);
  if (!own.defined()) return;
  const auto numbers =
      parse_json(saved, "the checkpoint's probe").numbers(static_cast<size_t>(own.numel()));
  const Tensor before = torch::tensor(numbers, torch::kFloat64);
  const double size = before.norm().item<double>();
  const double gap = (own - before).norm().item<double>();
  if (!std::isfinite(size)) return;
  CDT_REQUIRE(gap <= kSameFunction * size,
              "the checkpoint belongs to another model: with its parameters the outputs differ by ",
              100 * gap / size, " % from those that were saved (another activation or layer?)");
}

}  // namespace cdt::train
