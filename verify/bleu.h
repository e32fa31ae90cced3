#pragma once
// BLEU-4 as sacrebleu defines it (signature nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp), on a scale of 0
// to 1.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// The words of a line by the rules of mteval-v13a: entities &quot; &amp; &lt; &gt; resolved, ASCII
/// punctuation and symbols apart, a full stop or comma apart unless between digits, a dash apart after a
/// digit; split at Unicode's spaces. Text is UTF-8; bytes that are none belong to the word around them.
std::vector<std::string> tokenize_13a(std::string_view line);

/// One text made by a system and the one it should be.
struct TextPair {
  std::string text, reference;
};

/// Corpus BLEU: the geometric mean of the clipped precisions of 1 to 4 words, counted over all pairs, times
/// the brevity penalty exp(1 - reference words / words) where the system's texts are shorter. A precision of
/// zero is taken as 1 / (2^z * n-grams), where z counts the zero precisions so far. Nothing if no text is
/// long enough for four words, where the measure is undefined (sacrebleu says 0). Source: Papineni et al.
/// 2002; Post 2018; Chen and Cherry 2014, method 3, for the zeros.
std::optional<double> bleu(std::span<const TextPair> corpus);

}  // namespace tandem
