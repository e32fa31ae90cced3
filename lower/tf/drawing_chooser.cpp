#include <limits>

#include "lower/tf/choosing.h"
#include "lower/tf/drawing_rules.h"
#include "lower/tf/uniform.h"

namespace tandem {
namespace {

struct Range {
  const char* name;
  double least, most;
  const char* says;
};
constexpr Range kRanges[] = {{"temperature", 0, 1e6, "expected 0 to 1e6"},
                             {"top_k", 0, std::numeric_limits<int32_t>::max(), "expected 0 or more"},
                             {"top_p", std::numeric_limits<double>::min(), 1, "expected above 0, to 1"},
                             {"min_p", 0, 1, "expected 0 to 1"},
                             {"repetition_penalty", 1e-6, 1e6, "expected 1e-6 to 1e6"}};

Tensor in_range(FunctionBuilder& f, const Tensor& x, const Range& range) {
  const Tensor below = compare(f, "Less", x, f64_scalar(f, range.least));
  const Tensor above = compare(f, "Greater", x, f64_scalar(f, range.most));
  const Tensor none = f64_scalar(f, std::numeric_limits<double>::quiet_NaN());
  const Tensor refused = select(f, logical(f, "LogicalOr", below, above), none, x);
  return finite(f, refused, fmt::format("sampling_c1: {}: {}", range.name, range.says));
}

/// bool[batch, vocab]: the tokens of a prompt, padding apart.
Tensor seen_in(FunctionBuilder& f, const NamedTensors& inputs, const Dim& vocab) {
  const Tensor &rows = inputs.at("input_ids"), &mask = inputs.at("attention_mask");
  const Tensor numbers = f.expand_dims(ids_below(f, f.axis(kBatch), kBatch), -1);
  const Tensor row_of = f.binary("AddV2", f.unary("ZerosLike", rows), numbers);
  const std::string places =
      f.node("Pack", {row_of.ref, rows.ref},
             {attr("T", DType::i32), attr("N", int64_t{2}), attr("axis", int64_t{2})}, "output");
  const Tensor counts = as_i32(f.node("ScatterNd", {places, mask.ref, f.shape({kBatch, vocab})},
                                      {attr("T", DType::i32), attr("Tindices", DType::i32)}, "output"),
                               {kBatch, vocab});
  return compare(f, "Greater", counts, as_i32(f.scalar(0), {}));
}

Tensor most_likely(FunctionBuilder& f, const Tensor& x) {
  return as_i32(
      f.node("ArgMax", {x.ref, f.scalar(-1)},
             {attr("T", x.type.dtype), attr("Tidx", DType::i32), attr("output_type", DType::i32)}, "output"),
      {kBatch});
}

/// The weights, where the logits were sound.
Tensor checked(FunctionBuilder& f, const Tensor& weights) {
  const Tensor total = finite(f, reduced(f, "Sum", weights),
                              "sampling_c2: the logits hold NaN, or their largest is not finite");
  return f.same_after(weights, total);
}

/// i32[batch]: the first id at which the sum of probabilities is above the number drawn.
Tensor token_at(FunctionBuilder& f, const Tensor& weights, const Tensor& drawn) {
  const Dim vocab = weights.type.shape[1];
  const Tensor probabilities = f.binary("RealDiv", weights, reduced(f, "Sum", weights, true));
  const Tensor passed = compare(f, "LessEqual", cumulated(f, probabilities, false), f.expand_dims(drawn, -1));
  const Tensor token = reduced(f, "Sum", f.cast(passed, DType::i32));
  // The sum may have been rounded to below 1: then it is the last that may be drawn.
  const Tensor possible = compare(f, "Greater", probabilities, f64_scalar(f, 0));
  const Tensor places = f.binary("Mul", f.cast(possible, DType::i32), ids_below(f, f.axis(vocab), vocab));
  return f.binary("Minimum", token, reduced(f, "Max", places));
}

class Drawing : public Chooser {
 public:
  Drawing(std::vector<tensorflow::FunctionDef>& library, std::string stem)
      : library_(library), stem_(std::move(stem)) {}

  std::vector<TensorSpec> inputs() const override {
    return {{"eos_token_ids", DType::i32, {-1, -1}},
            {"min_p", DType::f64, {-1}},
            {"repetition_penalty", DType::f64, {-1}},
            {"seed", DType::i64, {-1}},
            {"temperature", DType::f64, {-1}},
            {"top_k", DType::i32, {-1}},
            {"top_p", DType::f64, {-1}}};
  }

  NamedTensors begin(FunctionBuilder& f, const NamedTensors& inputs, const Tensor& logits) const override {
    NamedTensors values{{"eos_token_ids", inputs.at("eos_token_ids")},
                        {"seed", f.reshape(inputs.at("seed"), {kBatch})},
                        {"seen", seen_in(f, inputs, logits.type.shape.back())}};
    for (const Range& range : kRanges) {
      const Tensor& given = inputs.at(range.name);
      const Tensor column = f.reshape(f.cast(given, DType::f64), {kBatch, Dim(1)});
      values[range.name] = f.cast(in_range(f, column, range), given.type.dtype);
    }
    return values;
  }

  Ends ends(FunctionBuilder& f, const NamedTensors& values) const override {
    const Tensor& given = values.at("eos_token_ids");
    // One column more, for rows that have none.
    const Tensor padded = as_i32(f.node("Pad", {given.ref, f.matrix({{0, 0}, {0, 1}})},
                                        {attr("T", DType::i32), attr("Tpaddings", DType::i32)}, "output"),
                                 {kBatch, Dim("ends")});
    const Tensor first = f.reshape(columns(f, padded, 0, f.scalar(1)), {kBatch});
    return {given, f.binary("Maximum", first, as_i32(f.scalar(0), {}))};
  }

  Tensor choose(FunctionBuilder& f, const NamedTensors& values, const Tensor& logits,
                const std::string& step) const override {
    const Tensor& temperature = values.at("temperature");
    const Tensor rows = f.reshape(logits, {kBatch, logits.type.shape.back()});
    const Tensor x = with_penalty(f, rows, values.at("seen"), values.at("repetition_penalty"));
    const Tensor best = reduced(f, "Max", x, true);
    const Tensor weights = checked(f, weights_of(f, x, best, temperature));
    const Tensor kept = kept_by_rank(f, x, best, {temperature, values.at("top_k"), values.at("top_p")});
    const Tensor likely = compare(f, "GreaterEqual", weights, values.at("min_p"));
    const Tensor left =
        select(f, logical(f, "LogicalAnd", kept, likely), weights, f.unary("ZerosLike", weights));
    LowerContext context{&library_, 0, stem_};
    const Tensor token = token_at(f, left, uniform(f, context, values.at("seed"), step));
    return select(f, f.reshape(is_zero(f, temperature), {kBatch}), most_likely(f, x), token);
  }

  NamedTensors after(FunctionBuilder& f, NamedTensors values, const Tensor& tokens) const override {
    Tensor& seen = values.at("seen");
    const Dim vocab = seen.type.shape[1];
    const Tensor made = compare(f, "Equal", f.expand_dims(tokens, -1), ids_below(f, f.axis(vocab), vocab));
    seen = logical(f, "LogicalOr", seen, made);
    return values;
  }

 private:
  std::vector<tensorflow::FunctionDef>& library_;
  std::string stem_;
};

}  // namespace

std::unique_ptr<Chooser> drawing_chooser(std::vector<tensorflow::FunctionDef>& library, std::string stem) {
  return std::make_unique<Drawing>(library, std::move(stem));
}

}  // namespace tandem
