#include <array>

#include "arch/config_reader.h"

namespace tandem {
namespace {

constexpr std::string_view kTraining = "only read while training";
constexpr std::string_view kTokenizer =
    "belongs to the tokenizer or to generation; carried along in config.json";
constexpr std::string_view kOutputs = "chooses what a Python call returns, not what is computed";
constexpr std::string_view kProvenance = "says where the file comes from";
constexpr std::string_view kGeneration = "an old default of generate(); carried along in config.json";

constexpr std::array kHarmless = std::to_array<HarmlessKey>({
    {"model_type", "read when the architecture is chosen"},
    {"architectures", kProvenance},
    {"auto_map", "names remote Python code, which is never run"},
    {"transformers_version", kProvenance},
    {"_name_or_path", kProvenance},
    {"_attn_implementation_autoset", kProvenance},
    {"initializer_range", kTraining},
    {"attention_dropout", kTraining},
    {"hidden_dropout", kTraining},
    {"aux_loss_alpha", kTraining},
    {"router_aux_loss_coef", kTraining},
    {"seq_aux", kTraining},
    {"pretraining_tp", "splits a product into parts that are added up again"},
    {"ep_size", "how experts were spread over machines"},
    {"use_cache", kOutputs},
    {"return_dict", kOutputs},
    {"output_attentions", kOutputs},
    {"output_hidden_states", kOutputs},
    {"output_router_logits", kOutputs},
    {"torchscript", kOutputs},
    {"use_bfloat16", kOutputs},
    {"bos_token_id", kTokenizer},
    {"pad_token_id", kTokenizer},
    {"sep_token_id", kTokenizer},
    {"decoder_start_token_id", kTokenizer},
    {"tokenizer_class", kTokenizer},
    {"prefix", kTokenizer},
    {"task_specific_params", kTokenizer},
    {"id2label", "labels of classification heads, which are refused"},
    {"label2id", "labels of classification heads, which are refused"},
    {"problem_type", "labels of classification heads, which are refused"},
    {"finetuning_task", kProvenance},
    {"chunk_size_feed_forward", "computes the same in pieces"},
    {"is_llama_config", kProvenance},
    {"max_length", kGeneration},
    {"min_length", kGeneration},
    {"do_sample", kGeneration},
    {"early_stopping", kGeneration},
    {"num_beams", kGeneration},
    {"num_beam_groups", kGeneration},
    {"diversity_penalty", kGeneration},
    {"temperature", kGeneration},
    {"top_k", kGeneration},
    {"top_p", kGeneration},
    {"typical_p", kGeneration},
    {"repetition_penalty", kGeneration},
    {"length_penalty", kGeneration},
    {"no_repeat_ngram_size", kGeneration},
    {"encoder_no_repeat_ngram_size", kGeneration},
    {"bad_words_ids", kGeneration},
    {"num_return_sequences", kGeneration},
    {"return_dict_in_generate", kGeneration},
    {"output_scores", kGeneration},
    {"forced_bos_token_id", kGeneration},
    {"forced_eos_token_id", kGeneration},
    {"remove_invalid_values", kGeneration},
    {"exponential_decay_length_penalty", kGeneration},
    {"suppress_tokens", kGeneration},
    {"begin_suppress_tokens", kGeneration},
    {"tf_legacy_loss", kTraining},
    {"pruned_heads", "empty in every decoder"},
});

}  // namespace

bool is_harmless(std::string_view key) {
  for (const HarmlessKey& row : kHarmless)
    if (row.key == key) return true;
  return false;
}

}  // namespace tandem
