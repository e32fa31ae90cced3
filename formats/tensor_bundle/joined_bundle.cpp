// Several bundles read as one.

#include <algorithm>

#include "formats/tensor_bundle/tensor_bundle.h"

namespace tandem {
namespace {

class JoinedBundle : public TensorBundle {
 public:
  explicit JoinedBundle(std::vector<std::unique_ptr<TensorBundle>> bundles) : bundles_(std::move(bundles)) {}

  Status join() {
    for (const auto& bundle : bundles_) {
      remarks_.insert(remarks_.end(), bundle->remarks().begin(), bundle->remarks().end());
      for (const TensorInfo& info : bundle->tensors()) {
        std::vector<const TensorBundle*>& holders = holders_[info.name];
        if (!holders.empty()) TANDEM_CHECK(same(info.name, *holders.front(), *bundle));
        if (holders.empty()) infos_.push_back(info);
        holders.push_back(bundle.get());
      }
    }
    std::ranges::sort(infos_, natural_less, &TensorInfo::name);
    return {};
  }

  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override {
    const TensorBundle* bundle = first_of(tensor);
    return bundle ? bundle->read(tensor, byte_offset, out) : missing("", "no tensor '{}'", tensor);
  }
  std::unique_ptr<FileWindow> window(std::string_view tensor, uint64_t byte_offset,
                                     uint64_t size) const override {
    const TensorBundle* bundle = first_of(tensor);
    return bundle ? bundle->window(tensor, byte_offset, size) : nullptr;
  }
  std::string location(std::string_view tensor) const override {
    const TensorBundle* bundle = first_of(tensor);
    return (bundle ? *bundle : *bundles_.front()).location(tensor);
  }
  Status verify_checksums() const override {
    for (const auto& bundle : bundles_) TANDEM_CHECK(bundle->verify_checksums());
    return {};
  }
  Status verify_checksum(std::string_view tensor) const override {
    const auto found = holders_.find(tensor);
    if (found == holders_.end()) return missing("", "no tensor '{}'", tensor);
    for (const TensorBundle* bundle : found->second) TANDEM_CHECK(bundle->verify_checksum(tensor));
    return {};
  }
  std::optional<uint32_t> stored_checksum(std::string_view tensor) const override {
    const TensorBundle* bundle = first_of(tensor);
    return bundle ? bundle->stored_checksum(tensor) : std::nullopt;
  }
  Result<std::string> read_string(std::string_view key) const override {
    return bundles_.front()->read_string(key);
  }
  bool has_object_graph() const override {
    return std::ranges::all_of(bundles_, [](const auto& bundle) { return bundle->has_object_graph(); });
  }
  std::vector<std::string> aliases(std::string_view tensor) const override {
    const TensorBundle* bundle = first_of(tensor);
    return bundle ? bundle->aliases(tensor) : std::vector<std::string>{};
  }
  const std::vector<std::string>& remarks() const override { return remarks_; }
  std::vector<BundleExtent> extents() const override {
    std::vector<BundleExtent> all;
    for (const auto& bundle : bundles_) std::ranges::move(bundle->extents(), std::back_inserter(all));
    return all;
  }

 private:
  static Status same(const std::string& name, const TensorBundle& one, const TensorBundle& other) {
    const TensorInfo &a = *one.find(name), &b = *other.find(name);
    const auto checksum = one.stored_checksum(name);
    if (a.dtype == b.dtype && a.shape == b.shape && checksum && checksum == other.stored_checksum(name))
      return {};
    return invalid("stages_c4", "'{}' is in two stages, and is not the same in both", name)
        .at(other.location(name))
        .because("a tied table that was trained in one of them?");
  }
  const TensorBundle* first_of(std::string_view tensor) const {
    const auto found = holders_.find(tensor);
    return found == holders_.end() ? nullptr : found->second.front();
  }

  std::vector<std::unique_ptr<TensorBundle>> bundles_;
  std::map<std::string, std::vector<const TensorBundle*>, std::less<>> holders_;
  std::vector<TensorInfo> infos_;
  std::vector<std::string> remarks_;
};

}  // namespace

Result<std::unique_ptr<TensorBundle>> TensorBundle::join(std::vector<std::unique_ptr<TensorBundle>> bundles) {
  if (bundles.empty()) return bug("", "no bundles to join");
  auto joined = std::make_unique<JoinedBundle>(std::move(bundles));
  TANDEM_CHECK(joined->join());
  return std::unique_ptr<TensorBundle>(std::move(joined));
}

}  // namespace tandem
