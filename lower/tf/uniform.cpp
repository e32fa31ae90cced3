#include "lower/tf/uniform.h"

#include "lower/tf/list_loop.h"
#include "lower/tf/step_functions.h"

namespace tandem {

Tensor uniform(FunctionBuilder& f, LowerContext& context, const Tensor& seeds, const std::string& step) {
  const LoopInputs inputs{{{"seeds", seeds}, {"step", as_i32(step, {})}}, {}};
  const auto draw = [](FunctionBuilder& g, const std::vector<Tensor>& values, const std::vector<TfOperand>&) {
    const Tensor row = g.reshape(as_i32("counter", {}), {Dim(1)});
    const Tensor key = g.cast(g.gather(values[0], row, 0), DType::u64);
    const std::string place =
        g.node("Pack", {values[1].ref, "counter"},
               {attr("T", DType::i32), attr("N", int64_t{2}), attr("axis", int64_t{0})}, "output");
    const Tensor counter = g.cast(as_i32(place, {Dim(2)}), DType::u64);
    const Tensor bits{
        g.node("StatelessRandomUniformFullIntV2", {g.constant({1}), key.ref, counter.ref, g.scalar(1)},
               {attr("dtype", DType::u64), attr("Tshape", DType::i32)}, "output"),
        {DType::u64, {Dim(1)}}};
    const Tensor eleven = g.cast(as_i32(g.scalar(11), {}), DType::u64);
    const Tensor high = g.cast(g.binary("RightShift", bits, eleven), DType::f64);
    return g.reshape(g.binary("Mul", high, {g.scalar(DType::f64, 0x1p-53), {DType::f64, {}}}), {});
  };
  return list_loop(f, context, "uniform", kBatch, {DType::f64, {}}, inputs, draw);
}

}  // namespace tandem
