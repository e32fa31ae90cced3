#include "formats/saved_model/checks.h"
#include "formats/saved_model/testing.h"
#include "fuzz/fuzz.h"

namespace tandem::fuzz {

void fuzz_one(std::span<const std::byte> bytes) {
  const auto model = parse_saved_model({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (model.ok()) static_cast<void>(check(model.value()));
}

std::vector<std::string> seeds() { return {assemble(testing::minimal_spec()).value().SerializeAsString()}; }

}  // namespace tandem::fuzz
