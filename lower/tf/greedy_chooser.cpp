#include "lower/tf/choosing.h"

namespace tandem {
namespace {

class Greedy : public Chooser {
 public:
  explicit Greedy(const std::vector<int64_t>& eos_token_ids)
      : ends_(eos_token_ids.begin(), eos_token_ids.end()) {}

  Ends ends(FunctionBuilder& f, const NamedTensors&) const override {
    return {as_i32(f.constant(ends_), {Dim(ends_.size())}),
            as_i32(f.scalar(ends_.empty() ? 0 : ends_[0]), {})};
  }

  Tensor choose(FunctionBuilder& f, const NamedTensors&, const Tensor& logits,
                const std::string&) const override {
    const std::string best =
        f.node("ArgMax", {logits.ref, f.scalar(-1)},
               {attr("T", DType::f32), attr("Tidx", DType::i32), attr("output_type", DType::i32)}, "output");
    return f.reshape(as_i32(best, {kBatch, Dim(1)}), {kBatch});
  }

 private:
  std::vector<int32_t> ends_;
};

}  // namespace

std::unique_ptr<Chooser> greedy_chooser(std::vector<int64_t> eos_token_ids) {
  return std::make_unique<Greedy>(eos_token_ids);
}

}  // namespace tandem
