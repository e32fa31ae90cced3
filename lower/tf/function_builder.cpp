#include "lower/tf/function_builder.h"

#include <cassert>
#include <cstring>

namespace tandem {
namespace {

void set_shape(tensorflow::TensorShapeProto* proto, const std::vector<int64_t>& shape) {
  for (const int64_t size : shape) proto->add_dim()->set_size(size);
}

/// Node names may hold letters, digits and . - _ / only.
std::string clean(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '/' && c != '-') c = '_';
  return name;
}

}  // namespace

tensorflow::DataType tf_dtype(DType dtype) {
  return static_cast<tensorflow::DataType>(row(dtype).tensorflow);
}

std::vector<int64_t> static_shape(const TensorType& type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.shape) shape.push_back(dim.fixed() ? static_cast<int64_t>(dim.size) : -1);
  return shape;
}

Attr attr(std::string name, DType dtype) {
  tensorflow::AttrValue value;
  value.set_type(tf_dtype(dtype));
  return {std::move(name), std::move(value)};
}
Attr attr(std::string name, int64_t number) {
  tensorflow::AttrValue value;
  value.set_i(number);
  return {std::move(name), std::move(value)};
}
Attr attr(std::string name, bool flag) {
  tensorflow::AttrValue value;
  value.set_b(flag);
  return {std::move(name), std::move(value)};
}
Attr attr(std::string name, std::vector<DType> dtypes) {
  tensorflow::AttrValue value;
  value.mutable_list();
  for (const DType dtype : dtypes) value.mutable_list()->add_type(tf_dtype(dtype));
  return {std::move(name), std::move(value)};
}
Attr shape_attr(std::string name, const std::vector<int64_t>& shape) {
  tensorflow::AttrValue value;
  set_shape(value.mutable_shape(), shape);
  return {std::move(name), std::move(value)};
}
Attr shapes_attr(std::string name, const std::vector<std::optional<std::vector<int64_t>>>& shapes) {
  tensorflow::AttrValue value;
  value.mutable_list();
  for (const auto& shape : shapes) {
    auto* proto = value.mutable_list()->add_shape();
    if (shape)
      set_shape(proto, *shape);
    else
      proto->set_unknown_rank(true);
  }
  return {std::move(name), std::move(value)};
}
Attr attr(std::string name, const std::vector<std::string>& texts) {
  tensorflow::AttrValue value;
  value.mutable_list();
  for (const std::string& text : texts) value.mutable_list()->add_s(text);
  return {std::move(name), std::move(value)};
}
Attr text_attr(std::string name, const std::string& text) {
  tensorflow::AttrValue value;
  value.set_s(text);
  return {std::move(name), std::move(value)};
}
Attr function_attr(std::string name, const std::string& function) {
  tensorflow::AttrValue value;
  value.mutable_func()->set_name(function);
  return {std::move(name), std::move(value)};
}

FunctionBuilder::FunctionBuilder(std::string name) {
  def_.mutable_signature()->set_name(std::move(name));
  (*def_.mutable_attr())["_input_shapes"].mutable_list();
}

Tensor FunctionBuilder::argument(const std::string& name, const TensorType& type) {
  auto* arg = def_.mutable_signature()->add_input_arg();
  arg->set_name(name);
  arg->set_type(tf_dtype(type.dtype));
  set_shape((*def_.mutable_attr())["_input_shapes"].mutable_list()->add_shape(), static_shape(type));
  used_[name] = 1;
  arguments_[name] = type;
  for (size_t i = 0; i < type.shape.size(); ++i)
    if (!type.shape[i].fixed()) axis_sources_.try_emplace(type.shape[i].symbol, name, static_cast<int>(i));
  return {name, type};
}

std::string FunctionBuilder::resource(const std::string& name, DType storage,
                                      const std::vector<int64_t>& shape) {
  auto* arg = def_.mutable_signature()->add_input_arg();
  std::string unique = clean(name);
  for (char& c : unique)
    if (c == '.' || c == '/' || c == '-') c = '_';
  unique = unique_name(unique);
  arg->set_name(unique);
  arg->set_type(tensorflow::DT_RESOURCE);
  auto* handle = arg->add_handle_data();
  handle->set_dtype(tf_dtype(storage));
  set_shape(handle->mutable_shape(), shape);
  (*def_.mutable_attr())["_input_shapes"].mutable_list()->add_shape();
  def_.mutable_signature()->set_is_stateful(true);
  return unique;
}

Tensor FunctionBuilder::variant(const std::string& name) {
  auto* arg = def_.mutable_signature()->add_input_arg();
  arg->set_name(name);
  arg->set_type(tensorflow::DT_VARIANT);
  (*def_.mutable_attr())["_input_shapes"].mutable_list()->add_shape();
  used_[name] = 1;
  return {name, {}};
}

void FunctionBuilder::result(const std::string& name, const Tensor& tensor) {
  add_result(name, tf_dtype(tensor.type.dtype), tensor.ref);
}

void FunctionBuilder::variant_result(const std::string& name, const std::string& ref) {
  add_result(name, tensorflow::DT_VARIANT, ref);
}

void FunctionBuilder::resource_result(const std::string& name, const std::string& ref) {
  add_result(name, tensorflow::DT_RESOURCE, ref);
}

void FunctionBuilder::add_result(const std::string& name, tensorflow::DataType dtype,
                                 const std::string& ref) {
  auto* arg = def_.mutable_signature()->add_output_arg();
  arg->set_name(name);
  arg->set_type(dtype);
  (*def_.mutable_ret())[name] = ref;
}

void FunctionBuilder::set_attribute(const Attr& attribute) {
  (*def_.mutable_attr())[attribute.first] = attribute.second;
}

void FunctionBuilder::set_node_attribute(const Attr& attribute) {
  assert(def_.node_def_size() > 0);
  (*def_.mutable_node_def(0)->mutable_attr())[attribute.first] = attribute.second;
}

void FunctionBuilder::set_last_node_attribute(const Attr& attribute) {
  assert(def_.node_def_size() > 0);
  (*def_.mutable_node_def(def_.node_def_size() - 1)->mutable_attr())[attribute.first] = attribute.second;
}

tensorflow::FunctionDef FunctionBuilder::finish() { return std::move(def_); }

void FunctionBuilder::scope(const std::string& name) { scope_ = name.empty() ? "" : clean(name) + "/"; }

std::string FunctionBuilder::unique_name(const std::string& base) {
  const int count = used_[base]++;
  if (count == 0) return base;
  return unique_name(base + "_" + std::to_string(count));
}

std::string FunctionBuilder::node(const std::string& op, const std::vector<std::string>& inputs,
                                  const std::vector<Attr>& attrs, const std::string& output) {
  auto* node = def_.add_node_def();
  node->set_name(unique_name(scope_ + op));
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  for (const auto& [key, value] : attrs) (*node->mutable_attr())[key] = value;
  return node->name() + ":" + output + ":0";
}

std::string FunctionBuilder::nth(const std::string& ref, int index, const std::string& output) {
  const size_t first = ref.find(':'), second = ref.rfind(':');
  const std::string arg = output.empty() ? ref.substr(first + 1, second - first - 1) : output;
  return ref.substr(0, first) + ":" + arg + ":" + std::to_string(index);
}

std::string FunctionBuilder::const_node(const std::string& key, const tensorflow::TensorProto& value) {
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  tensorflow::AttrValue attribute;
  *attribute.mutable_tensor() = value;
  const std::string saved = std::move(scope_);
  scope_ = "const/";
  auto* node = def_.add_node_def();
  node->set_name(unique_name("const/" + clean(key)));
  scope_ = saved;
  node->set_op("Const");
  (*node->mutable_attr())["dtype"].set_type(value.dtype());
  (*node->mutable_attr())["value"] = attribute;
  return constants_[key] = node->name() + ":output:0";
}

std::string FunctionBuilder::constant(const std::vector<int32_t>& values) {
  tensorflow::TensorProto proto;
  proto.set_dtype(tensorflow::DT_INT32);
  set_shape(proto.mutable_tensor_shape(), {static_cast<int64_t>(values.size())});
  proto.set_tensor_content(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t)));
  return const_node(fmt::format("i32_{}_v", fmt::join(values, "_")), proto);
}

std::string FunctionBuilder::matrix(const std::vector<std::vector<int32_t>>& rows) {
  tensorflow::TensorProto proto;
  proto.set_dtype(tensorflow::DT_INT32);
  set_shape(proto.mutable_tensor_shape(),
            {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.front().size())});
  std::string key = "i32";
  for (const std::vector<int32_t>& row : rows) {
    for (const int32_t value : row) proto.add_int_val(value);
    key += fmt::format("_{}_r", fmt::join(row, "_"));
  }
  return const_node(key, proto);
}

std::string FunctionBuilder::scalar(int32_t value) {
  tensorflow::TensorProto proto;
  proto.set_dtype(tensorflow::DT_INT32);
  proto.mutable_tensor_shape();
  proto.add_int_val(value);
  return const_node(fmt::format("i32_{}", value), proto);
}

std::string FunctionBuilder::scalar(DType dtype, double value) { return table(dtype, {value}, {}); }

std::string FunctionBuilder::table(DType dtype, const std::vector<double>& values,
                                   const std::vector<int64_t>& shape) {
  tensorflow::TensorProto proto;
  proto.set_dtype(tf_dtype(dtype));
  set_shape(proto.mutable_tensor_shape(), shape);
  std::string content(values.size() * size_of(dtype), '\0');
  if (dtype == DType::f64) {
    std::memcpy(content.data(), values.data(), content.size());
  } else {
    std::vector<float> single(values.begin(), values.end());
    const auto from = std::as_bytes(std::span(single));
    const auto done = tandem::cast(DType::f32, from, dtype,
                                   std::as_writable_bytes(std::span(content.data(), content.size())));
    assert(done.ok());
  }
  proto.set_tensor_content(content);
  const std::string key = values.size() == 1 ? fmt::format("{}_{}_{}", name(dtype), values[0], shape.size())
                                             : fmt::format("{}_table_{}_{:016x}", name(dtype), values.size(),
                                                           std::hash<std::string>{}(content));
  return const_node(key, proto);
}

Tensor FunctionBuilder::read(const TfOperand& weight) {
  assert(weight.storage);
  const std::string key = weight.tensor.ref;
  const auto found = reads_.find(key);
  if (found != reads_.end()) return found->second;
  const TensorType type{*weight.storage, weight.tensor.type.shape};
  return reads_[key] = {
             node("ReadVariableOp", {weight.tensor.ref}, {attr("dtype", *weight.storage)}, "value"), type};
}

Tensor FunctionBuilder::use(const TfOperand& operand) {
  if (!operand.storage) return operand.tensor;
  const std::string key = operand.tensor.ref + "/" + std::string(name(operand.tensor.type.dtype));
  const auto found = reads_.find(key);
  if (found != reads_.end()) return found->second;
  return reads_[key] = cast(read(operand), operand.tensor.type.dtype);
}

Tensor FunctionBuilder::cast(const Tensor& x, DType dtype) {
  if (x.type.dtype == dtype) return x;
  return {node("Cast", {x.ref}, {attr("SrcT", x.type.dtype), attr("DstT", dtype)}, "y"),
          {dtype, x.type.shape}};
}

std::string FunctionBuilder::axis(const Dim& dim) {
  if (dim.fixed()) return scalar(static_cast<int32_t>(dim.size));
  const auto found = axes_.find(dim.symbol);
  if (found != axes_.end()) return found->second;
  const auto source = axis_sources_.find(dim.symbol);
  assert(source != axis_sources_.end());
  const auto& [argument, position] = source->second;
  const std::string saved = std::move(scope_);
  scope_ = "shape/";
  const std::string shape = node(
      "Shape", {argument}, {attr("T", arguments_[argument].dtype), attr("out_type", DType::i32)}, "output");
  const std::string value = node(
      "StridedSlice", {shape, constant({position}), constant({position + 1}), constant({1})},
      {attr("T", DType::i32), attr("Index", DType::i32), attr("shrink_axis_mask", int64_t{1})}, "output");
  scope_ = saved;
  return axes_[dim.symbol] = value;
}

std::string FunctionBuilder::shape(const std::vector<std::optional<Dim>>& dims) {
  std::vector<int32_t> fixed;
  std::string key = "shape";
  bool known = true;
  for (const auto& dim : dims) {
    known = known && (!dim || dim->fixed());
    fixed.push_back(dim && dim->fixed() ? static_cast<int32_t>(dim->size) : -1);
    key += "/" + (dim ? (dim->fixed() ? std::to_string(dim->size) : dim->symbol) : "-1");
  }
  if (known) return constant(fixed);
  const auto found = axes_.find(key);
  if (found != axes_.end()) return found->second;
  std::vector<std::string> scalars;
  for (const auto& dim : dims) scalars.push_back(dim ? axis(*dim) : scalar(-1));
  const auto count = static_cast<int64_t>(scalars.size());
  return axes_[key] = node("Pack", scalars,
                           {attr("T", DType::i32), attr("N", count), attr("axis", int64_t{0})}, "output");
}

Tensor FunctionBuilder::binary(const std::string& op, const Tensor& x, const Tensor& y) {
  return {node(op, {x.ref, y.ref}, {attr("T", x.type.dtype)}, "z"), x.type};
}

Tensor FunctionBuilder::unary(const std::string& op, const Tensor& x) {
  return {node(op, {x.ref}, {attr("T", x.type.dtype)}, "y"), x.type};
}

Tensor FunctionBuilder::same(const Tensor& x) {
  return {node("Identity", {x.ref}, {attr("T", x.type.dtype)}, "output"), x.type};
}

Tensor FunctionBuilder::same_after(const Tensor& x, const Tensor& before) {
  const std::string control = "^" + before.ref.substr(0, before.ref.find(':'));
  return {node("Identity", {x.ref, control}, {attr("T", x.type.dtype)}, "output"), x.type};
}

Tensor FunctionBuilder::reshape(const Tensor& x, const std::vector<Dim>& dims) {
  const std::string to = shape({dims.begin(), dims.end()});
  return {node("Reshape", {x.ref, to}, {attr("T", x.type.dtype), attr("Tshape", DType::i32)}, "output"),
          {x.type.dtype, dims}};
}

Tensor FunctionBuilder::flatten_rows(const Tensor& x) {
  const Dim last = x.type.shape.back();
  return {node("Reshape", {x.ref, shape({std::nullopt, last})},
               {attr("T", x.type.dtype), attr("Tshape", DType::i32)}, "output"),
          {x.type.dtype, {Dim("rows"), last}}};
}

Tensor FunctionBuilder::transpose(const Tensor& x, const std::vector<int32_t>& axes) {
  TensorType type{x.type.dtype, {}};
  for (const int32_t axis : axes) type.shape.push_back(x.type.shape[static_cast<size_t>(axis)]);
  return {
      node("Transpose", {x.ref, constant(axes)}, {attr("T", x.type.dtype), attr("Tperm", DType::i32)}, "y"),
      type};
}

Tensor FunctionBuilder::expand_dims(const Tensor& x, int32_t axis) {
  TensorType type = x.type;
  const auto at = axis < 0 ? static_cast<int32_t>(type.shape.size()) + 1 + axis : axis;
  type.shape.insert(type.shape.begin() + at, Dim(1));
  return {node("ExpandDims", {x.ref, scalar(axis)}, {attr("T", x.type.dtype), attr("Tdim", DType::i32)},
               "output"),
          type};
}

std::string FunctionBuilder::join(const std::vector<std::string>& parts, DType dtype) {
  if (parts.size() == 1) return parts[0];  // ConcatV2 takes two or more
  std::vector<std::string> inputs = parts;
  inputs.push_back(scalar(0));
  const auto count = static_cast<int64_t>(parts.size());
  return node("ConcatV2", inputs, {attr("T", dtype), attr("N", count), attr("Tidx", DType::i32)}, "output");
}

Tensor FunctionBuilder::concat_last(const Tensor& x, const Tensor& y) {
  TensorType type = x.type;
  type.shape.back() = Dim(x.type.shape.back().size + y.type.shape.back().size);
  return {node("ConcatV2", {x.ref, y.ref, scalar(-1)},
               {attr("T", x.type.dtype), attr("N", int64_t{2}), attr("Tidx", DType::i32)}, "output"),
          type};
}

Tensor FunctionBuilder::slice_last(const Tensor& x, int32_t begin, int32_t end, int32_t stride) {
  TensorType type = x.type;
  type.shape.back() = Dim((end - begin + stride - 1) / stride);
  // An ellipsis for all axes but the last.
  return {
      node("StridedSlice", {x.ref, constant({0, begin}), constant({0, end}), constant({1, stride})},
           {attr("T", x.type.dtype), attr("Index", DType::i32), attr("ellipsis_mask", int64_t{1})}, "output"),
      type};
}

Tensor FunctionBuilder::gather(const Tensor& x, const Tensor& indices, int32_t axis, int32_t batch_dims) {
  TensorType type{x.type.dtype, {x.type.shape.begin(), x.type.shape.begin() + axis}};
  type.shape.insert(type.shape.end(), indices.type.shape.begin() + batch_dims, indices.type.shape.end());
  type.shape.insert(type.shape.end(), x.type.shape.begin() + axis + 1, x.type.shape.end());
  return {node("GatherV2", {x.ref, indices.ref, scalar(axis)},
               {attr("Tparams", x.type.dtype), attr("Tindices", indices.type.dtype),
                attr("Taxis", DType::i32), attr("batch_dims", int64_t{batch_dims})},
               "output"),
          type};
}

Tensor FunctionBuilder::item(const Tensor& x, int32_t index) {
  return {node("StridedSlice", {x.ref, constant({index}), constant({index + 1}), constant({1})},
               {attr("T", x.type.dtype), attr("Index", DType::i32), attr("shrink_axis_mask", int64_t{1})},
               "output"),
          {x.type.dtype, {x.type.shape.begin() + 1, x.type.shape.end()}}};
}

Tensor FunctionBuilder::once(const std::string& key, const std::function<Tensor()>& make) {
  const auto found = made_.find(key);
  return found != made_.end() ? found->second : made_[key] = make();
}

Tensor FunctionBuilder::batch_matmul(const Tensor& x, const Tensor& y, bool transpose_y) {
  TensorType type = x.type;
  type.shape.back() = y.type.shape[y.type.rank() - (transpose_y ? 2 : 1)];
  return {node("BatchMatMulV2", {x.ref, y.ref},
               {attr("T", x.type.dtype), attr("adj_x", false), attr("adj_y", transpose_y)}, "output"),
          type};
}

Tensor FunctionBuilder::matmul(const Tensor& x, const Tensor& kernel, bool transpose_kernel) {
  const Dim out = kernel.type.shape[transpose_kernel ? 0 : 1];
  const Tensor rows = x.type.rank() == 2 ? x : flatten_rows(x);
  Tensor product{
      node("MatMul", {rows.ref, kernel.ref},
           {attr("T", x.type.dtype), attr("transpose_a", false), attr("transpose_b", transpose_kernel)},
           "product"),
      {x.type.dtype, {rows.type.shape[0], out}}};
  if (x.type.rank() == 2) return product;
  std::vector<Dim> dims = x.type.shape;
  dims.back() = out;
  return reshape(product, dims);
}

std::string FunctionBuilder::range(const std::string& begin, const std::string& end) {
  return node("Range", {begin, end, scalar(1)}, {attr("Tidx", DType::i32)}, "output");
}

std::string FunctionBuilder::call(const std::string& function, const std::vector<std::string>& inputs,
                                  const std::vector<DType>& explicit_types, size_t resources,
                                  const std::vector<DType>& outputs) {
  Attr types = attr("Tin", explicit_types);
  for (size_t i = 0; i < resources; ++i) types.second.mutable_list()->add_type(tensorflow::DT_RESOURCE);
  def_.mutable_signature()->set_is_stateful(true);
  return node("StatefulPartitionedCall", inputs, {types, attr("Tout", outputs), function_attr("f", function)},
              "output");
}

}  // namespace tandem
