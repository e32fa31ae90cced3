// Rows of the ops that move, look up, multiply and add.

#include "lower/tf/activation.h"
#include "lower/tf/lower_ops.h"

namespace tandem {
namespace {

/// x [..., in] rounded to bf16, times a kernel bf16 [out, in], summed in f32. XLA compiles it to one pass
/// over the kernel as it is stored; of the stock kernels for processors none takes bf16 and gives f32.
Tensor bf16_product(FunctionBuilder& f, const Tensor& x, const Tensor& kernel) {
  const Tensor rows = f.cast(f.flatten_rows(x), DType::bf16);
  const Dim out = kernel.type.shape[0];
  const Tensor product{f.node("BatchMatMulV3", {rows.ref, kernel.ref},
                              {attr("Ta", DType::bf16), attr("Tb", DType::bf16), attr("Tout", DType::f32),
                               attr("adj_x", false), attr("adj_y", true)},
                              "output"),
                       {DType::f32, {rows.type.shape[0], out}}};
  std::vector<Dim> dims = x.type.shape;
  dims.back() = out;
  return f.reshape(product, dims);
}

}  // namespace

std::vector<Tensor> lower_positions(FunctionBuilder& f, const Node&, std::span<const TfOperand> inputs,
                                    LowerContext&) {
  const Tensor mask = f.use(inputs[0]);
  const Tensor counted{
      f.node("Cumsum", {mask.ref, f.scalar(1)}, {attr("T", DType::i32), attr("Tidx", DType::i32)}, "out"),
      mask.type};
  const Tensor shifted = f.binary("Sub", counted, {f.scalar(1), {}});
  return {f.binary("Maximum", shifted, {f.scalar(0), {}})};
}

std::vector<Tensor> lower_fill_like(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                    LowerContext&) {
  const TensorType& x = inputs[0].tensor.type;
  TensorType type{DType::i32, {x.shape[0], x.shape[1]}};
  for (const int64_t size : std::get<std::vector<int64_t>>(node.attributes.at("last")))
    type.shape.push_back(Dim(static_cast<uint64_t>(size)));
  const std::string value = f.scalar(static_cast<int32_t>(int_attribute(node, "value")));
  const std::string dims = f.shape({type.shape.begin(), type.shape.end()});
  return {{f.node("Fill", {dims, value}, {attr("T", DType::i32), attr("index_type", DType::i32)}, "output"),
           type}};
}

std::vector<Tensor> lower_select(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                 LowerContext&) {
  const Tensor x = f.use(inputs[0]);
  const auto axis = static_cast<int32_t>(int_attribute(node, "axis"));
  const Tensor index{f.scalar(static_cast<int32_t>(int_attribute(node, "index"))), {DType::i32, {}}};
  return {f.gather(x, index, axis)};
}

std::vector<Tensor> lower_embedding(FunctionBuilder& f, const Node&, std::span<const TfOperand> inputs,
                                    LowerContext&) {
  // The stored rows are gathered first and cast afterwards. Not ResourceGather: it makes every later read of
  // a tied table a copy.
  const Tensor rows = f.gather(f.read(inputs[1]), f.use(inputs[0]), 0);
  return {f.cast(rows, inputs[1].tensor.type.dtype)};
}

std::vector<Tensor> lower_linear(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                 LowerContext& context) {
  const Tensor x = f.use(inputs[0]);
  const TfOperand& kernel = inputs[1];
  const bool out_in = string_attribute(node, "layout") == "out_in";
  const bool as_stored = context.matmul_precision == DType::bf16 && out_in && kernel.storage == DType::bf16 &&
                         kernel.tensor.type.dtype == DType::f32;
  const Tensor product = as_stored ? bf16_product(f, x, f.read(kernel)) : f.matmul(x, f.use(kernel), out_in);
  if (inputs.size() == 2) return {product};
  return {f.binary("AddV2", product, f.use(inputs[2]))};
}

std::vector<Tensor> lower_rms_norm(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                   LowerContext&) {
  const Tensor x = f.use(inputs[0]);
  const Tensor wide = f.cast(x, DType::f32);
  const Tensor square = f.unary("Square", wide);
  TensorType reduced = wide.type;
  reduced.shape.back() = Dim(1);
  const Tensor mean{
      f.node("Mean", {square.ref, f.constant({-1})},
             {attr("T", DType::f32), attr("Tidx", DType::i32), attr("keep_dims", true)}, "output"),
      reduced};
  const Tensor shifted =
      f.binary("AddV2", mean, {f.scalar(DType::f32, float_attribute(node, "epsilon")), {}});
  const Tensor normal = f.cast(f.binary("Mul", wide, f.unary("Rsqrt", shifted)), x.type.dtype);
  return {f.binary("Mul", normal, f.use(inputs[1]))};
}

std::vector<Tensor> lower_add(FunctionBuilder& f, const Node&, std::span<const TfOperand> inputs,
                              LowerContext&) {
  return {f.binary("AddV2", f.use(inputs[0]), f.use(inputs[1]))};
}

std::vector<Tensor> lower_activation_gate(FunctionBuilder& f, const Node& node,
                                          std::span<const TfOperand> inputs, LowerContext&) {
  const Tensor gate = f.use(inputs[0]), up = f.use(inputs[1]);
  const std::string& hidden_act = string_attribute(node, "hidden_act");
  if (gate.type.shape[1] == Dim(1)) return {gate_few_rows(f, hidden_act, gate, up)};
  return {f.binary("Mul", activate(f, hidden_act, gate), up)};
}

std::vector<Tensor> lower_split_heads(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                      LowerContext&) {
  const Tensor x = f.use(inputs[0]);
  const auto heads = static_cast<uint64_t>(int_attribute(node, "heads"));
  const Tensor split =
      f.reshape(x, {x.type.shape[0], x.type.shape[1], Dim(heads), Dim(x.type.shape[2].size / heads)});
  return {f.transpose(split, {0, 2, 1, 3})};
}

std::vector<Tensor> lower_merge_heads(FunctionBuilder& f, const Node&, std::span<const TfOperand> inputs,
                                      LowerContext&) {
  const Tensor x = f.transpose(f.use(inputs[0]), {0, 2, 1, 3});
  return {f.reshape(x, {x.type.shape[0], x.type.shape[1], Dim(x.type.shape[2].size * x.type.shape[3].size)})};
}

std::vector<Tensor> lower_repeat_heads(FunctionBuilder& f, const Node& node,
                                       std::span<const TfOperand> inputs, LowerContext&) {
  const Tensor x = f.use(inputs[0]);
  const auto heads = static_cast<int32_t>(int_attribute(node, "heads"));
  TensorType type = x.type;
  type.shape[1] = Dim(heads);
  return {{f.node("Tile", {x.ref, f.constant({1, heads, 1, 1})},
                  {attr("T", x.type.dtype), attr("Tmultiples", DType::i32)}, "output"),
           type}};
}

std::vector<Tensor> lower_gather_heads(FunctionBuilder& f, const Node& node,
                                       std::span<const TfOperand> inputs, LowerContext&) {
  const std::vector<int64_t>& order = ints_attribute(node, "order");
  const Tensor indices{f.constant({order.begin(), order.end()}), {DType::i32, {Dim(order.size())}}};
  return {f.gather(f.use(inputs[0]), indices, 1)};
}

std::vector<Tensor> lower_roll(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                               LowerContext&) {
  const Tensor x = f.use(inputs[0]);
  const std::string shift = f.scalar(static_cast<int32_t>(int_attribute(node, "shift")));
  const std::string axis = f.scalar(static_cast<int32_t>(int_attribute(node, "axis")));
  return {{f.node("Roll", {x.ref, shift, axis},
                  {attr("T", x.type.dtype), attr("Tshift", DType::i32), attr("Taxis", DType::i32)}, "output"),
           x.type}};
}

std::vector<Tensor> lower_slice(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                LowerContext&) {
  const auto begin = static_cast<int32_t>(int_attribute(node, "begin"));
  return {f.slice_last(f.use(inputs[0]), begin, begin + static_cast<int32_t>(int_attribute(node, "size")))};
}

std::vector<Tensor> lower_concat(FunctionBuilder& f, const Node&, std::span<const TfOperand> inputs,
                                 LowerContext&) {
  return {f.concat_last(f.use(inputs[0]), f.use(inputs[1]))};
}

std::vector<Tensor> lower_cast(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                               LowerContext&) {
  return {f.cast(f.use(inputs[0]), dtype_named(string_attribute(node, "dtype")).value())};
}

}  // namespace tandem
