#include "engines/tf/steps.h"

#include <cstring>

namespace tandem {
namespace {

/// A signature's inputs, owned until it has run.
class Inputs {
 public:
  explicit Inputs(const TfApi& api) : api_(api) {}
  Status add(const std::string& name, const HostTensor& tensor) {
    TANDEM_TRY(Owned<TF_Tensor> made, to_tensorflow(api_, tensor));
    by_name_[name] = made.get();
    owned_.push_back(std::move(made));
    return {};
  }
  void borrow(const std::string& name, TF_Tensor* tensor) { by_name_[name] = tensor; }
  const std::map<std::string, TF_Tensor*>& by_name() const { return by_name_; }

 private:
  const TfApi& api_;
  std::vector<Owned<TF_Tensor>> owned_;
  std::map<std::string, TF_Tensor*> by_name_;
};

/// The logits out of a signature's outputs, which then holds the caches alone.
Result<HostTensors> take_logits(const TfApi& api, TfTensors& outputs) {
  auto logits = outputs.extract("logits");
  if (!logits) return corrupt("tf_c14", "a signature gave no logits");
  HostTensors taken;
  TANDEM_TRY(taken["logits"], from_tensorflow(api, *logits.mapped(), "logits"));
  return taken;
}

class GrowingSteps : public Steps {
 public:
  GrowingSteps(const TfApi& api, std::map<std::string, std::string> caches, RunSignature run)
      : api_(api), caches_(std::move(caches)), run_(std::move(run)) {}

  Result<HostTensors> begin(const HostTensors& inputs) override {
    kept_.clear();
    Inputs in(api_);
    TANDEM_CHECK(in.add("input_ids", inputs.at("input_ids")));
    return run("prefill", inputs, in);
  }

  Result<HostTensors> next(const HostTensors& inputs) override {
    Inputs in(api_);
    TANDEM_CHECK(in.add("input_ids", last_column(inputs.at("input_ids"))));
    for (const auto& [present, past] : caches_) in.borrow(past, kept_.at(present).get());
    return run("decode", inputs, in);
  }

 private:
  Result<HostTensors> run(const std::string& key, const HostTensors& inputs, Inputs& in) {
    TANDEM_CHECK(in.add("attention_mask", inputs.at("attention_mask")));
    TANDEM_TRY(TfTensors outputs, run_(key, in.by_name()));
    TANDEM_TRY(HostTensors logits, take_logits(api_, outputs));
    kept_ = std::move(outputs);
    return logits;
  }

  const TfApi& api_;
  std::map<std::string, std::string> caches_;  ///< output to input
  RunSignature run_;
  TfTensors kept_;  ///< by output
};

HostTensor i32_tensor(uint64_t batch, uint64_t tokens) {
  return {DType::i32, {batch, tokens}, std::vector<std::byte>(batch * tokens * sizeof(int32_t))};
}

/// The rows of a tensor [batch, tokens] at the end of longer ones, zeros before them.
HostTensor padded_left(const HostTensor& tensor, uint64_t tokens) {
  const uint64_t batch = tensor.shape[0], size = sizeof(int32_t), own = tensor.shape[1] * size;
  HostTensor padded = i32_tensor(batch, tokens);
  for (uint64_t row = 0; row < batch; ++row)
    std::memcpy(padded.data.data() + (row + 1) * tokens * size - own, tensor.data.data() + row * own, own);
  return padded;
}

/// Copies `tokens` tokens of each row of [batch, heads, from_slots, size] into slots from `slot` on of
/// [batch, heads, to_slots, size].
void copy_tokens(const TfApi& api, const TF_Tensor& from, TF_Tensor& to, uint64_t tokens, uint64_t slot) {
  const auto dim = [&](const TF_Tensor& tensor, int axis) {
    return static_cast<uint64_t>(api.TF_Dim(&tensor, axis));
  };
  const uint64_t rows = dim(from, 0) * dim(from, 1), from_slots = dim(from, 2), to_slots = dim(to, 2);
  if (rows == 0 || from_slots == 0) return;
  const uint64_t bytes = api.TF_TensorByteSize(&from) / rows / from_slots;  // of one token of one head
  const auto* source = static_cast<const std::byte*>(api.TF_TensorData(&from));
  auto* target = static_cast<std::byte*>(api.TF_TensorData(&to));
  for (uint64_t row = 0; row < rows; ++row)
    std::memcpy(target + (row * to_slots + slot) * bytes, source + row * from_slots * bytes, tokens * bytes);
}

class CompiledSteps : public Steps {
 public:
  CompiledSteps(const TfApi& api, std::map<std::string, std::string> caches, RunSignature run)
      : api_(api), caches_(std::move(caches)), run_(std::move(run)) {}

  Result<HostTensors> begin(const HostTensors& inputs) override {
    buffers_.clear();
    const HostTensor& ids = inputs.at("input_ids");
    used_ = bucket_of(ids.shape[1]);
    mask_ = padded_left(inputs.at("attention_mask"), used_);
    Inputs in(api_);
    TANDEM_CHECK(in.add("input_ids", padded_left(ids, used_)));
    TANDEM_CHECK(in.add("attention_mask", mask_));
    TANDEM_TRY(TfTensors outputs, run_("prefill_xla", in.by_name()));
    TANDEM_TRY(HostTensors logits, take_logits(api_, outputs));
    TANDEM_CHECK(move_to(std::move(outputs), bucket_of(used_ + 1)));
    return logits;
  }

  Result<HostTensors> next(const HostTensors& inputs) override {
    if (used_ == capacity()) {
      TANDEM_CHECK(move_to(std::move(buffers_), bucket_of(used_ + 1)));
    }
    Inputs in(api_);
    TANDEM_CHECK(in.add("input_ids", last_column(inputs.at("input_ids"))));
    TANDEM_CHECK(in.add("position_ids", next_positions()));
    TANDEM_CHECK(in.add("attention_mask", mask_));
    for (const auto& [present, past] : caches_) in.borrow(past, buffers_.at(present).get());
    TANDEM_TRY(TfTensors outputs, run_("decode_xla", in.by_name()));
    TANDEM_TRY(HostTensors logits, take_logits(api_, outputs));
    for (const auto& [present, past] : caches_) {
      const auto rows = outputs.find("new_" + past.substr(past.find('_') + 1));
      if (rows == outputs.end()) return corrupt("tf_c14", "decode_xla gave no rows for {}", past);
      copy_tokens(api_, *rows->second, *buffers_.at(present), 1, used_);
    }
    for (uint64_t row = 0; row < mask_.shape[0]; ++row) mask_at(row, used_) = 1;
    ++used_;
    return logits;
  }

 private:
  uint64_t capacity() const { return mask_.shape[1]; }
  int32_t& mask_at(uint64_t row, uint64_t slot) {
    return reinterpret_cast<int32_t*>(mask_.data.data())[row * capacity() + slot];
  }

  /// Moves the first `used_` tokens of all caches, and the mask, to buffers of another capacity.
  Status move_to(TfTensors from, uint64_t slots) {
    for (const auto& [present, past] : caches_) {
      const auto old = from.find(present);
      if (old == from.end() || api_.TF_NumDims(old->second.get()) != 4)
        return corrupt("tf_c14", "prefill_xla gave no cache {} with four axes", present);
      const TF_Tensor& tensor = *old->second;
      const auto dtype = dtype_of_tensorflow(api_.TF_TensorType(&tensor));
      if (!dtype) return unsupported("tf_c9", "{} is of DataType {}", present, api_.TF_TensorType(&tensor));
      Shape shape = shape_of(api_, tensor);
      shape[2] = slots;
      TANDEM_TRY(Owned<TF_Tensor> buffer, zeros(api_, *dtype, shape));
      copy_tokens(api_, tensor, *buffer, used_, 0);
      buffers_.insert_or_assign(present, std::move(buffer));
      from.erase(old);
    }
    HostTensor longer = i32_tensor(mask_.shape[0], slots);
    std::swap(mask_, longer);
    for (uint64_t row = 0; row < mask_.shape[0]; ++row)
      std::memcpy(&mask_at(row, 0), longer.data.data() + row * longer.shape[1] * sizeof(int32_t),
                  used_ * sizeof(int32_t));
    return {};
  }

  HostTensor next_positions() {
    HostTensor positions = i32_tensor(mask_.shape[0], 1);
    for (uint64_t row = 0; row < mask_.shape[0]; ++row) {
      int32_t count = 0;
      for (uint64_t slot = 0; slot < used_; ++slot) count += mask_at(row, slot);
      std::memcpy(positions.data.data() + row * sizeof(int32_t), &count, sizeof(int32_t));
    }
    return positions;
  }

  const TfApi& api_;
  std::map<std::string, std::string> caches_;
  RunSignature run_;
  uint64_t used_ = 0;  ///< slots that hold a token or padding
  HostTensor mask_;    ///< i32 [batch, capacity]
  TfTensors buffers_;  ///< [batch, heads, capacity, size], by prefill's output
};

}  // namespace

std::unique_ptr<Steps> growing_steps(const TfApi& api, const Signatures& signatures, RunSignature run) {
  auto caches = caches_of(signatures);
  if (caches.empty()) return nullptr;
  return std::make_unique<GrowingSteps>(api, std::move(caches), std::move(run));
}

std::unique_ptr<Steps> compiled_steps(const TfApi& api, const Signatures& signatures, RunSignature run) {
  auto caches = caches_of(signatures);
  if (caches.empty() || !signatures.contains("prefill_xla") || !signatures.contains("decode_xla"))
    return nullptr;
  return std::make_unique<CompiledSteps>(api, std::move(caches), std::move(run));
}

Result<HostTensors> last_logits_by(Steps& steps, SeenRows& seen, const HostTensors& inputs) {
  const bool next = seen.are_continued_by(inputs);
  seen.forget();
  TANDEM_TRY(HostTensors logits, next ? steps.next(inputs) : steps.begin(inputs));
  seen.remember(inputs);
  return logits;
}

uint64_t bucket_of(uint64_t tokens) {
  uint64_t bucket = 64;
  while (bucket < tokens) {
    if (bucket / 2 * 3 >= tokens) return bucket / 2 * 3;
    bucket *= 2;
  }
  return bucket;
}

}  // namespace tandem
