#include "engines/dump_engine.h"

#include <algorithm>

namespace tandem {
namespace {

class DumpEngine : public Engine {
 public:
  explicit DumpEngine(std::shared_ptr<const DumpFile> dump) : dump_(std::move(dump)) {}
  const EngineInfo& info() const override { return dump_->info(); }

  Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                          const std::vector<std::string>& outputs) override {
    if (entry != "logits" && entry != "taps")
      return unsupported("dump_c10", "a dump cannot run '{}', only tell what it recorded", entry)
          .at(dump_->path());
    const DumpProbe* probe = dump_->find(inputs);
    if (!probe)
      return invalid("dump_c9", "the dump has no probe with these inputs")
          .at(dump_->path())
          .because("a dump answers for its own probes alone");
    return entry == "logits" ? results(*probe, outputs) : taps(*probe, outputs);
  }

 private:
  Result<HostTensors> results(const DumpProbe& probe, const std::vector<std::string>& outputs) const {
    HostTensors found;
    for (const auto& [name, tensor] : probe.results)
      if (outputs.empty() || std::find(outputs.begin(), outputs.end(), name) != outputs.end()) {
        TANDEM_TRY(found[name], dump_->read(tensor));
      }
    for (const std::string& name : outputs)
      if (!found.contains(name))
        return unsupported("dump_c10", "the dump has no {} of the probe \"{}\"", name, probe.name)
            .at(dump_->path());
    return found;
  }

  Result<HostTensors> taps(const DumpProbe& probe, const std::vector<std::string>& outputs) const {
    const auto wanted = [&](const std::string& name) {
      return outputs.empty() || std::find(outputs.begin(), outputs.end(), name) != outputs.end();
    };
    HostTensors found;
    for (const auto& [name, tensor] : probe.taps)
      if (wanted(name)) {
        TANDEM_TRY(found[name], dump_->read(tensor));
      }
    if (const auto logits = probe.results.find("logits"); logits != probe.results.end() && wanted("logits")) {
      TANDEM_TRY(found["logits"], dump_->read(logits->second));
    }
    return found;
  }

  std::shared_ptr<const DumpFile> dump_;
};

}  // namespace

std::unique_ptr<Engine> dump_engine(std::shared_ptr<const DumpFile> dump) {
  return std::make_unique<DumpEngine>(std::move(dump));
}

}  // namespace tandem
