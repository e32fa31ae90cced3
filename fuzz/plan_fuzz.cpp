#include <cstdlib>

#include "convert/plan_file.h"
#include "convert/task_note.h"
#include "fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

const std::string kPlanId(64, 'b');

DataShard shard() { return {"model.safetensors", {{"a", DType::bf16, {2}}, {"b", DType::f32, {}}}, 100}; }

WrittenShard written() {
  const Sha256Digest digest{std::byte{0xaa}};
  return {{100, 7, Sha256Tree{digest, {digest}}, {9}}, {{"a", 1, {}, false}, {"b", 2, {1, 2, 3}, true}}};
}

ConversionPlan plan() {
  ConversionPlan plan{"/source", "/destination", {}, {}, {}, 1000, 0, {}};
  plan.options.dtype = DType::f32;
  plan.options.accepted_keys = {"k"};
  plan.options.max_shard_bytes = 5;
  plan.inputs = {{"/source/config.json", 10, -1, std::string(64, 'c'), 10}, {"/source/x.data", 10, 1, {}, 0}};
  plan.tasks = {{"a", 1, 2}, {"b", 3, 4}};
  return plan;
}

void check_manifest(std::string_view text) {
  const auto read = written_from_text(text, shard(), 3, kPlanId);
  if (!read.ok()) return;
  if (read.value().tensors.size() != 2 || read.value().sums.bytes != 100) std::abort();
  if (!written_from_text(to_text(read.value(), shard(), 3, kPlanId), shard(), 3, kPlanId).ok()) std::abort();
}

}  // namespace

/// A plan; or, behind a blank, the manifest of a task.
void fuzz_one(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with(' ')) return check_manifest(text.substr(1));
  const auto read = plan_from_text(text);
  if (!read.ok()) return;
  if (read.value().disk() < read.value().rest_bytes) std::abort();  // a sum that was not checked
  const auto again = plan_from_text(to_json(read.value()).dump());
  if (!again.ok() || identity(again.value()) != identity(read.value())) std::abort();
}

std::vector<std::string> seeds() {
  return {to_json(plan()).dump(), " " + to_text(written(), shard(), 3, kPlanId), "{\"tandem_plan\":2}"};
}

}  // namespace tandem::fuzz
