// A worker without a framework, for engine_test: its model echoes, and misbehaves on the entry's word.

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "engines/serve.h"

namespace {

class Echo : public tandem::ServedModel {
 public:
  tandem::EngineInfo info() const override { return {{"engine", "fake"}, {"version", "1"}}; }
  tandem::Result<tandem::HostTensors> run(const std::string& entry, const tandem::HostTensors& inputs,
                                          const std::vector<std::string>& outputs) override {
    if (entry == "exit") {
      fprintf(stderr, "first line\nlast words\n");
      _exit(3);
    }
    if (entry == "crash") raise(SIGKILL);
    if (entry == "hang") pause();
    if (entry == "garbage") garbage("\x08\0\0\0\0\0\0\0garbage!", 16);
    if (entry == "huge") garbage("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
    if (entry == "cut") {
      garbage("\x40\0\0\0\0\0\0\0abc", 11);
      _exit(0);
    }
    if (entry == "throw") throw std::runtime_error("thrown by the framework\nwith a trace");
    if (entry == "refuse") return tandem::invalid("fake_c1", "not today").because("ask tomorrow");
    tandem::HostTensors results;
    for (const auto& [name, tensor] : inputs)
      if (tandem::is_wanted(outputs, name)) results.emplace(name, tensor);
    return results;
  }

 private:
  static void garbage(const char* bytes, size_t size) {
    if (write(3, bytes, size) != static_cast<ssize_t>(size)) _exit(4);
  }
};

}  // namespace

int main() {
  tandem::serve_and_exit([](const tandem::Words&) -> tandem::Result<std::unique_ptr<tandem::ServedModel>> {
    return std::unique_ptr<tandem::ServedModel>(std::make_unique<Echo>());
  });
}
