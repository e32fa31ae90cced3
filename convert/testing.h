#pragma once
// Models of a few hundred bytes on disk, for the tests of this folder.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "base/hash.h"
#include "convert/open_model.h"

namespace tandem {

/// A folder of its own for one test, gone with it.
class ModelsOnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    // In memory where that is there: thousands of conversions each sync their files.
    const std::string base = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ::testing::TempDir();
    std::string name = base + "/tandem-convert-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { EXPECT_TRUE(real_files().remove_all(folder_).ok()); }
  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> names() const { return real_files().list(folder_).value(); }
  std::string folder_;
};

/// The tiny llama of the public reports (TL).
inline Json tiny_llama() {
  return Json{{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"vocab_size", 32},
              {"hidden_size", 16},
              {"intermediate_size", 24},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 4},
              {"num_key_value_heads", 2},
              {"head_dim", 4},
              {"hidden_act", "silu"},
              {"max_position_embeddings", 64},
              {"rms_norm_eps", 1e-6},
              {"rope_theta", 10000.0},
              {"attention_bias", false},
              {"mlp_bias", false},
              {"tie_word_embeddings", false},
              {"torch_dtype", "bfloat16"}};
}

/// bf16 values between 1 and 2 seeded by the tensor's name, so that no cast loses them.
inline std::vector<std::byte> bf16_values(const TensorInfo& info) {
  std::vector<std::byte> data(byte_count(info.dtype, info.shape).value());
  uint64_t state = name_hash(info.name);
  for (size_t i = 0; i + 1 < data.size(); i += 2) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto value = static_cast<uint16_t>(0x3f80 | (state >> 57));
    std::memcpy(&data[i], &value, 2);
  }
  return data;
}

/// All weights that a config asks for.
inline MemorySource weights_for(const Json& config, const std::set<std::string>& without = {}) {
  const Model model = make_model(config).value();
  MemorySource source;
  for (const TensorPlan& plan : expand(model.rules))
    for (const std::string& name : plan.hf)
      if (!without.contains(name))
        source.add({name, DType::bf16, plan.hf_shape}, bf16_values({name, DType::bf16, plan.hf_shape}));
  return source;
}

inline void write_folder(const std::string& folder, const Json& config, const MemorySource& weights) {
  ASSERT_TRUE(real_files().make_directories(folder).ok());
  ASSERT_TRUE(write_text(real_files(), join(folder, "config.json"), config.dump(2)).ok());
  ASSERT_TRUE(write_text(real_files(), join(folder, "tokenizer.json"), "{\"a\": 1}").ok());
  ASSERT_TRUE(write_hf_weights(real_files(), folder, weights).ok());
}

using Contents = std::map<std::string, std::string>;

/// Every tensor of a model by name: dtype, shape and CRC-32C of its bytes.
inline Contents contents_of(const std::string& path) {
  const OpenedModel opened = open_model(real_files(), path).value();
  Contents contents;
  for (const TensorInfo& info : opened.tensors().tensors()) {
    std::vector<std::byte> data(byte_count(info.dtype, info.shape).value());
    EXPECT_TRUE(opened.tensors().read(info.name, 0, data).ok());
    contents[info.name] =
        fmt::format("{}{} crc32c {:08x}", info.dtype, to_string(info.shape), crc32c(0, data));
  }
  return contents;
}

/// Runs a call in a process that dies there; what it ended with.
inline int died(const std::function<Status()>& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Status done = call();
    if (!done.ok()) fmt::print(stderr, "{}\n", done.error().message());
    ::_exit(done.ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Every file below a folder by its path: the hash of its bytes.
inline Contents files_of(const std::string& folder) {
  Contents contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      contents[entry.path().lexically_relative(folder).string()] =
          sha256_hex(as_bytes(read_text(real_files(), entry.path().string()).value()));
  return contents;
}

}  // namespace tandem
