#include "bench/passes.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "base/signals.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

/// Threads wait here for each other, awake: one that sleeps begins late.
class Gate {
 public:
  explicit Gate(int threads) : threads_(threads) {}
  void pass() {
    const unsigned round = round_;
    if (++waiting_ == threads_) {
      waiting_ = 0;
      ++round_;
      return;
    }
    while (round_ == round) std::this_thread::yield();
  }

 private:
  int threads_;
  std::atomic<int> waiting_ = 0;
  std::atomic<unsigned> round_ = 0;
};

struct Span {
  Clock::time_point begin, end;
};

double seconds_of(const std::vector<Span>& spans) {
  const auto begin = std::min_element(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
                       return a.begin < b.begin;
                     })->begin;
  const auto end = std::max_element(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
                     return a.end < b.end;
                   })->end;
  return std::chrono::duration<double>(end - begin).count();
}

/// The first of the processors that share this one's core; itself where the kernel does not say.
int first_sibling(int processor) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list",
                                 processor));  // "0,64", "0-1"
  std::string text;
  std::getline(file, text);
  int first = processor;
  std::from_chars(text.data(), text.data() + text.size(), first);
  return first;
}

void bind_to(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  static_cast<void>(sched_setaffinity(0, sizeof one, &one));  // 0: this thread; without it passes are slower
}

}  // namespace

std::vector<int> processors_by_core() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> first, others;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (int processor = 0; processor < CPU_SETSIZE; ++processor)
      if (CPU_ISSET(processor, &allowed))
        (first_sibling(processor) == processor ? first : others).push_back(processor);
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

Result<Rate> rate_of_passes(const PassOptions& options, double units, const std::function<void(int)>& prepare,
                            const std::function<void(int, size_t)>& work) {
  Gate gate(options.threads);
  std::vector<Span> spans(static_cast<size_t>(options.threads));
  std::vector<double> rates;
  std::atomic<bool> more = true;
  const std::vector<int> processors = processors_by_core();
  const auto run = [&](int thread) {
    if (!processors.empty()) bind_to(processors[static_cast<size_t>(thread) % processors.size()]);
    prepare(thread);
    gate.pass();
    const auto begin = Clock::now();
    for (size_t pass = 0; more; ++pass) {
      gate.pass();
      Span& mine = spans[static_cast<size_t>(thread)];
      mine.begin = Clock::now();
      work(thread, pass);
      mine.end = Clock::now();
      gate.pass();
      if (thread == 0) {
        rates.push_back(units / seconds_of(spans));
        const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
        more =
            !interrupted() && (passed < options.seconds || pass + 1 < static_cast<size_t>(options.at_least));
      }
      gate.pass();  // all see the same `more`
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < options.threads; ++thread) threads.emplace_back(run, thread);
  for (std::thread& thread : threads) thread.join();
  if (interrupted()) return unavailable("", "stopped by a signal");
  std::sort(rates.begin(), rates.end());
  return Rate{rates.back(), rates[rates.size() / 2], rates.size()};
}

}  // namespace tandem
