#include "verify/text_prompts.h"

#include <algorithm>

#include "text/first_difference.h"

namespace tandem {
namespace {

constexpr std::string_view kShort[] = {
    "The morning train was late, so",
    "def area(width, height):\n    return",
    "Water boils at 100 degrees, and it freezes at",
    "Once the letter had been read aloud, nobody",
    "1, 2, 4, 8, 16,",
    "import json\n\nwith open(path) as file:\n",
    "Dear Ms Larsen,\n\nThank you for",
    "The recipe needs flour, two eggs and",
    "for row in table:\n    if row is None:\n",
    "Q: What is the capital of Norway?\nA:",
    "She closed the door, turned the key and",
    "class Stack:\n    def __init__(self):\n",
    "{\"name\": \"lamp\", \"price\": 12.50, \"stock\":",
    "The bridge is 240 metres long and",
    "If the wind turns in the night,",
    "# Sorts the names by length.\n",
    "Monday, Tuesday, Wednesday,",
    "In the north of the country people",
    "SELECT name, age FROM persons WHERE",
    "Our neighbour's dog, which never barks,",
    "while not queue.empty():\n    item =",
    "The answer to the second question is",
    "raise ValueError(\"expected a number, got\"",
    "<ul>\n  <li>bread</li>\n  <li>",
};

/// Why ids cannot be run; empty if they can.
std::string unfit(const std::vector<int32_t>& ids, uint64_t vocab_size) {
  if (ids.empty()) return "the tokenizer makes no ids of a text";
  for (const int32_t id : ids)
    if (id < 0 || static_cast<uint64_t>(id) >= vocab_size)
      return fmt::format("the tokenizer makes id {} of a text, and vocab_size is {}", id, vocab_size);
  return {};
}

}  // namespace

const std::span<const std::string_view> kShortTexts = kShort;

SideText text_of(const OpenedModel& opened) {
  auto model = text::model_text(opened.side_files);
  if (model.ok()) return {std::move(model).value(), {}};
  const Error& error = model.error();
  if (error.rule == "text_c1") return {{}, opened.path + " has no tokenizer.json"};
  return {{}, fmt::format("{} of {}: {}", error.where, opened.path, error.text)};
}

TextIds encode_texts(const SideText& side, std::span<const std::string_view> texts, uint64_t vocab_size) {
  if (!side.model) return {{}, side.skipped};
  TextIds found;
  for (const std::string_view text : texts) {
    auto ids = text::prompt_ids(*side.model, text);
    if (!ids.ok()) return {{}, ids.error().text};
    if (std::string reason = unfit(ids.value(), vocab_size); !reason.empty()) return {{}, std::move(reason)};
    found.rows.push_back(std::move(ids).value());
  }
  return found;
}

Status same_ids(const SideText& left, const SideText& right) {
  if (!left.model || !right.model) return {};
  std::vector<std::string_view> texts(kShortTexts.begin(), kShortTexts.end());
  texts.push_back(kLongText);
  for (const std::string_view text : texts) {
    const auto left_ids = text::prompt_ids(*left.model, text);
    const auto right_ids = text::prompt_ids(*right.model, text);
    if (!left_ids.ok() && !right_ids.ok()) continue;  // encode_texts says why
    std::string parted;
    if (left_ids.ok() && right_ids.ok())
      parted = text::first_difference(left.model->tokenizer, left_ids.value(), right.model->tokenizer,
                                      right_ids.value());
    else
      parted = fmt::format("the {} side has none: {}", left_ids.ok() ? "right" : "left",
                           (left_ids.ok() ? right_ids : left_ids).error().text);
    if (!parted.empty())
      return not_equal("verify_c12", "the sides' tokenizers read the text {} as other ids: {}",
                       Json(text.substr(0, text.find('\n'))).dump(), parted)
          .because("their logits would differ though the weights were right; --tokens compares ids");
  }
  return {};
}

const std::string_view kLongText =
    R"(The harbour office opened at seven, an hour before the first ferry, and Ingrid liked to be there early enough to
light the stove herself. From the window she could see the whole of the quay: the crane with its chipped green
paint, the fish crates stacked four high, the lamp at the end of the mole that nobody had remembered to switch off.
In winter the water was the colour of slate. Today it was almost blue, and a thin mist lay on it like breath on a
mirror.

Her work was to count. Every boat that came in had a number, a name, a length in metres and a purpose, and all four
went into the ledger, one line each. When she had started, nineteen years ago, the ledger was a book with a cloth
spine; now it was a table on a screen, but she still thought of it as the book. People asked her sometimes whether
it was dull. She never found a good answer. It is not dull to know that the Marta, 14.5 metres, comes home heavier on
Thursdays, or that the grey yacht from the south always leaves before its fees are due.

"Did you hear about the new pilot?" said Tomas, who had come in without knocking and was already warming his hands.

"Which one? There have been three since March."

"The one who ran the tug aground, of course. He says the chart was wrong."

"The chart is from 1987," said Ingrid. "The sandbank is older."

He laughed, took a cup from the shelf and put it back again because it was not clean. Then he sat on the edge of the
table, where he knew she did not want him to sit, and told her the story anyway: how the fog had come down, how the
engine had stopped twice, and how the whole crew had waited on deck for six hours, playing cards, until the tide
lifted them off as gently as a hand lifts a sleeping cat.

After he had gone she wrote it all down. The form had a field for the cause, with a list to choose from: weather,
machine, person, other. She chose "other", thought for a moment, and typed: sandbank, known.

By noon the numbers for the month were complete:

    boats in      212
    boats out     209
    longest       61.20 m
    fees paid     48,310.75
    fees due       1,904.00  (3.9 %)

The program that added them up was short, and she had written most of it herself, one rainy week, with a manual from
the library propped against the lamp:

def total(rows, column="fee"):
    """Sum of one column; rows without it count as zero."""
    result = 0.0
    for row in rows:
        value = row.get(column)
        if value is not None and value >= 0:
            result += float(value)
    return round(result, 2)

She ran it once more, compared the last line with the sum on paper, and found that both were the same. That was the
part of the day she liked best. There was no reason to expect anything else, and yet each time it felt as if two
people who had never met had given the same answer to a hard question.
)";

Status same_ids_as_library(const text::Tokenizer& tokenizer, Engine& hf) {
  TANDEM_TRY(const std::vector<int32_t> theirs, hf.encode(kLongText));
  text::EncodeMemory memory;
  TANDEM_TRY(const text::Encoding ours, tokenizer.encode(kLongText, memory));
  const std::string parted =
      text::first_difference(tokenizer, {ours.ids.begin(), ours.ids.end()}, tokenizer, theirs);
  if (parted.empty()) return {};
  return not_equal("verify_c13",
                   "our tokenizer (left) and the tokenizers library (right) read a text as other ids: {}",
                   parted);
}

void add_text_probe(const SideText& side, uint64_t vocab_size, std::vector<Probe>& probes,
                    std::vector<std::string>& skipped) {
  TextIds text = encode_texts(side, std::span(&kLongText, 1), vocab_size);
  if (!text.skipped.empty()) {
    skipped.push_back("text probe: " + text.skipped);
    return;
  }
  std::vector<int32_t>& ids = text.rows.front();
  ids.resize(std::min<size_t>(ids.size(), kLongTokens));
  probes.push_back(make_probe("text", {ids}, Padding::right));
}

}  // namespace tandem
