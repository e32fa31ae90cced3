#include "formats/saved_model/stage_manifest.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

StageManifest two() { return {"llama", {{0, 3, 912, ""}, {3, 6, 900, "x_3"}}}; }

/// What the reader says when each `from` is one `to`.
std::string read(const std::string& from = "", const std::string& to = "") {
  std::string text = to_text(two());
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  const auto manifest = stages_from_text(text);
  if (manifest.ok()) {
    EXPECT_EQ(manifest.value(), two());
  }
  return manifest.ok() ? "ok" : manifest.error().message();
}

TEST(StageManifest, IsReadAsItIsWritten) {
  EXPECT_EQ(read(), "ok");
  EXPECT_EQ(two().folder(1), "stage-1-of-2");
  EXPECT_EQ(to_json(two())["stages"][0]["gives"], "hidden_states_out");
  EXPECT_EQ(to_json(two())["stages"][1]["gives"], "logits");
}

TEST(StageManifest, C3AnythingElseIsRefused) {
  const std::string start = "stages_c3: stages.json is not of this tool: ";
  EXPECT_EQ(read("\"tandem_stages\": 1", "\"tandem_stages\": 2"), start + "version 2, this program knows 1");
  EXPECT_EQ(read("\"architecture\": \"llama\"", "\"architecture\": 7"),
            start + "tandem_stages, architecture or stages is missing");
  EXPECT_EQ(read("\"bytes\": 912", "\"bytes\": -1"), start + "stages[0] has bytes that are no number");
  EXPECT_EQ(read("\"bytes\": 912", "\"size\": 912"), start + "stages[0] has no \"bytes\"");
  EXPECT_EQ(read("\"x_3\"", "null"),
            start + "stages[1] takes ids if it is the first, and else hidden_states with a name");
  EXPECT_EQ(read("    3,\n    6", "    4,\n    6"), start + "stages[1] has layers 4 to 6 after 3");
  EXPECT_EQ(read("    3,\n    6", "    3,\n    3"), start + "stages[1] has layers 3 to 3 after 3");
  EXPECT_EQ(read("stage-1-of-2", "../elsewhere"),
            start + "folder, takes or gives, or a field that is not known");
  EXPECT_EQ(read("\"gives\": \"logits\"", "\"gives\": \"logits\", \"also\": 1"),
            start + "folder, takes or gives, or a field that is not known");
  const auto none = stages_from_text(R"({"tandem_stages": 1, "architecture": "llama", "stages": []})");
  EXPECT_EQ(none.error().message(), start + "0 stages, expected 1 to 10000");
}

}  // namespace
}  // namespace tandem
