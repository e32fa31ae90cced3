#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "engines/worker_process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<WorkerProcess> fake() {
  auto started = WorkerProcess::start({{TANDEM_BINARY_DIR "/bin/tandem-fake-worker"}, "a hint"});
  EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().message());
  auto loaded = started.value()->call({{{"op", "load"}, {"path", "/model"}}, {}}, 10);
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message());
  return std::move(started).value();
}

Result<Message> run(WorkerProcess& worker, const std::string& entry, HostTensors inputs = {},
                    double timeout_s = 10) {
  return worker.call({{{"op", "run"}, {"entry", entry}}, std::move(inputs)}, timeout_s);
}

Error failure(const Result<Message>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? Error{} : result.error();
}

HostTensor bytes_of(size_t count) {
  HostTensor tensor{DType::u8, {count}, std::vector<std::byte>(count)};
  for (size_t i = 0; i < count; ++i) tensor.data[i] = static_cast<std::byte>(i * 7);
  return tensor;
}

TEST(Engine, TensorsOfEveryDTypeAndSizeReturnAsTheyWent) {
  HostTensors inputs;
  for (const DTypeRow& row : kDTypes) inputs[std::string(row.name)] = {row.dtype, {2, 0, 3}, {}};
  inputs["scalar"] = {DType::f32, {}, std::vector<std::byte>(4, std::byte{0x7f})};
  inputs["large"] = bytes_of(40'000'000);  // several pieces, and far more than a socket's buffer
  const auto worker = fake();
  const auto reply = run(*worker, "echo", inputs);
  ASSERT_TRUE(reply.ok()) << reply.error().message();
  ASSERT_EQ(reply.value().tensors.size(), inputs.size());
  for (const auto& [name, tensor] : inputs) {
    const HostTensor& back = reply.value().tensors.at(name);
    EXPECT_EQ(back.dtype, tensor.dtype) << name;
    EXPECT_EQ(back.shape, tensor.shape) << name;
    EXPECT_EQ(back.data, tensor.data) << name;
  }
}

TEST(Engine, OfLogitsTheLastTokenAloneTravelsWhereAskedFor) {
  HostTensors inputs{{"logits", {DType::u8, {2, 3, 4}, bytes_of(24).data}}, {"other", bytes_of(5)}};
  const auto worker = fake();
  const auto reply = worker->call({{{"op", "run"}, {"entry", "echo"}, {"tokens", "last"}}, inputs}, 10);
  ASSERT_TRUE(reply.ok()) << reply.error().message();
  const HostTensor& logits = reply.value().tensors.at("logits");
  EXPECT_EQ(logits.shape, (Shape{2, 1, 4}));
  EXPECT_EQ(logits.data.size(), 8u);
  EXPECT_EQ(logits.data[0], bytes_of(24).data[8]);
  EXPECT_EQ(logits.data[7], bytes_of(24).data[23]);
  EXPECT_EQ(reply.value().tensors.at("other").data, bytes_of(5).data);
  inputs["logits"] = bytes_of(24);
  EXPECT_EQ(failure(worker->call({{{"op", "run"}, {"entry", "echo"}, {"tokens", "last"}}, inputs}, 10)).text,
            "logits are u8[24] in 24 bytes, expected [batch, tokens, vocab]");
}

TEST(Engine, C1ProgramThatIsNotThere) {
  const auto started = WorkerProcess::start({{"/nowhere/worker"}, "`make venv` installs it"});
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(
      started.error().message(),
      "engine_c1: /nowhere/worker cannot be started: No such file or directory (`make venv` installs it)");
}

TEST(Engine, C2DeathIsUnavailableWithTheLastWords) {
  const auto worker = fake();
  const Error error = failure(run(*worker, "exit"));
  EXPECT_EQ(error.kind, ErrorKind::unavailable);
  EXPECT_EQ(error.text,
            "tandem-fake-worker ended with exit code 3 during run; it said: first line|last words");
  EXPECT_EQ(failure(run(*worker, "echo")).text, error.text) << "a dead worker stays dead";
}

TEST(Engine, C2KilledBySignal) {
  const auto worker = fake();
  const Error error = failure(run(*worker, "crash"));
  EXPECT_EQ(error.text, "tandem-fake-worker was killed by signal 9 (Killed) during run");
  EXPECT_THAT(error.hint, HasSubstr("out of memory"));
}

TEST(Engine, C2DeathInTheMiddleOfAReply) {
  const auto worker = fake();
  EXPECT_EQ(failure(run(*worker, "cut")).text, "tandem-fake-worker ended with exit code 0 during run");
}

TEST(Engine, C3NoAnswerInTime) {
  const auto worker = fake();
  const Error error = failure(run(*worker, "hang", {}, 0.2));
  EXPECT_EQ(error.kind, ErrorKind::unavailable);
  EXPECT_EQ(error.text, "tandem-fake-worker gave no answer to run in 0.2 s and was stopped");
}

TEST(Engine, C4Garbage) {
  const auto worker = fake();
  const Error error = failure(run(*worker, "garbage"));
  EXPECT_EQ(error.kind, ErrorKind::corrupt);
  EXPECT_THAT(error.text, HasSubstr("tandem-fake-worker answered run with garbage and was stopped"));
}

TEST(Engine, C4LengthBeyondAllBoundsIsRefusedBeforeAnythingIsAllocated) {
  const auto worker = fake();
  EXPECT_THAT(failure(run(*worker, "huge")).text, HasSubstr("9223372036854775807 bytes is announced"));
}

TEST(Engine, WorkersOwnErrorsComeWholeAndTheWorkerLivesOn) {
  const auto worker = fake();
  const Error error = failure(run(*worker, "refuse"));
  EXPECT_EQ(error.kind, ErrorKind::invalid);
  EXPECT_EQ(error.message(), "fake_c1: not today (ask tomorrow)");
  EXPECT_EQ(failure(run(*worker, "throw")).message(), "engine_c8: thrown by the framework");
  EXPECT_TRUE(run(*worker, "echo").ok());
}

TEST(Engine, TensorWhoseDataHasNotTheSizeOfItsShapeIsNotSent) {
  const auto worker = fake();
  HostTensor tensor = bytes_of(10);
  tensor.shape = {11};
  EXPECT_EQ(failure(run(*worker, "echo", {{"x", tensor}})).text,
            "tensor 'x' has 10 bytes, its shape [11] of u8 needs 11");
  EXPECT_TRUE(run(*worker, "echo").ok());
}

TEST(Engine, UnknownOpAndRunBeforeLoad) {
  auto started = WorkerProcess::start({{TANDEM_BINARY_DIR "/bin/tandem-fake-worker"}, ""});
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(failure(run(*started.value(), "echo")).text, "op=run before op=load");
  EXPECT_EQ(failure(started.value()->call({{{"op", "dance"}}, {}}, 10)).text, "unknown op 'dance'");
}

TEST(Protocol, ReplyWithoutAKnownKindIsCorrupt) {
  EXPECT_EQ(error_from_words({{"ok", "0"}, {"kind", "strange"}}).kind, ErrorKind::corrupt);
  const Error error = invalid("x_c1", "text").at("file").because("cause");
  EXPECT_EQ(error_from_words(error_words(error)).message(), error.message());
}

TEST(Protocol, NamesInOneWord) {
  EXPECT_THAT(split_names("a,b.c,,d"), ::testing::ElementsAre("a", "b.c", "d"));
  EXPECT_THAT(split_names(""), ::testing::IsEmpty());
  EXPECT_EQ(join_names({"a", "b"}), "a,b");
}

TEST(Engine, NamesAreThoseOfTheTable) {
  for (const EngineKind kind :
       {EngineKind::tf, EngineKind::torch, EngineKind::hf, EngineKind::keras_hub, EngineKind::dump})
    EXPECT_EQ(engine_named(name(kind)).value(), kind);
  EXPECT_EQ(engine_named("jax").error().message(),
            "engine_c5: no engine 'jax'; there are tf, torch, hf, keras_hub, dump");
}

TEST(Engine, PathThatIsNoFolder) {
  const auto engine = Engine::start(EngineKind::hf, "/nowhere/model");
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::missing);
}

}  // namespace
}  // namespace tandem
