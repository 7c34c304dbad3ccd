#include "program/program.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "simd/dispatch.h"

namespace tailrace {

namespace {

// The message is a function: a step in bounds builds no strings.
template <class Message>
void require(bool condition, Message message) {
    if (condition) return;
    if constexpr (std::is_invocable_v<Message>) {
        throw std::invalid_argument(message());
    } else {
        throw std::invalid_argument(message);
    }
}

// Marks the program as busy while it lives.
class Busy {
  public:
    explicit Busy(std::atomic<bool>& flag) : flag_(flag) {
        require(!flag.exchange(true, std::memory_order_acquire), "another thread is in a step");
    }
    ~Busy() { flag_.store(false, std::memory_order_release); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

  private:
    std::atomic<bool>& flag_;
};

int fewest_kv_heads(const std::vector<CacheShape>& caches) {
    int fewest = caches.empty() ? 1 : caches.front().num_kv_heads;
    for (const CacheShape& shape : caches) fewest = std::min(fewest, shape.num_kv_heads);
    return std::max(fewest, 1);
}

bool is_within(int value, int bound) { return value >= 0 && value < bound; }

}  // namespace

Program::Program(std::shared_ptr<const Weights> weights, Isa isa, const Limits& limits,
                 const std::vector<CacheShape>& caches, KvFormat kv_format, size_t activation_bytes,
                 size_t private_bytes)
    : weights_(std::move(weights)),
      kernels_(kernels_for(isa)),
      limits_(limits),
      activations_(activation_bytes),
      queries_(limits, fewest_kv_heads(caches)) {
    require(limits.block_tokens > 0 && limits.block_tokens % kKeyGroup == 0,
            "block_tokens must be a multiple of 16, not " + std::to_string(limits.block_tokens));
    require(limits.num_threads > 0, "a program needs at least one thread");
    const int groups = limits.block_tokens / kKeyGroup;
    for (const CacheShape& shape : caches) {
        require(shape.head_dim > 0 && shape.head_dim <= kMaxHeadDim, [&] {
            return "heads of " + std::to_string(shape.head_dim) + " dimensions: 1 to " + std::to_string(kMaxHeadDim) +
                   " are supported";
        });
        const size_t tile_bytes = (shape.has_values ? 2 : 1) * kv_tile_bytes(kv_format, shape.head_dim);
        caches_.push_back(
            {nullptr, 0, tile_bytes, tile_bytes * groups, groups, shape.num_kv_heads, shape.head_dim, kv_format});
        reserve_scratch(attention_scratch_bytes(shape.head_dim));
        block_bytes_ += tile_bytes * groups * shape.num_kv_heads;
    }
    pool_ = Pool(limits.num_blocks, block_bytes_);
    uint8_t* first = pool_.data();
    for (CacheView& cache : caches_) {
        cache.pool = first;
        cache.block_stride = block_bytes_;
        first += cache.head_stride * cache.num_kv_heads;
    }
    reserve_scratch(scratch_bytes_ + activation_bytes / std::max(limits.max_tokens, 1));  // no row is longer
    for (int thread = 0; thread < limits.num_threads; ++thread) copies_.emplace_back(private_bytes);
    row_sequences_.resize(limits.max_tokens);
}

void Program::finish(const FloatBuffer& logits, int num_embeddings) {
    logits_ = logits;
    num_embeddings_ = num_embeddings;
    for (int thread = 0; thread < limits_.num_threads; ++thread) {
        scratches_.emplace_back(scratch_bytes_);
        samplers_.emplace_back(kernels_, logits.cols);
    }
    masks_ = std::make_shared<Masks>(2 * limits_.max_sequences, logits.cols);
    auto* head = dynamic_cast<GemmStage*>(last_stage());
    picks_best_ = head && head->out.offset == logits.offset;
    if (picks_best_) head->is_head = true;
    bests_.reset(new std::atomic<Candidate>[limits_.max_samples]);
    num_pieces_.resize(stages_.size() + 1);
    team_ = std::make_unique<Team>(limits_.num_threads, static_cast<int>(num_pieces_.size()));
}

void Program::limit_heads(int heads_per_kv_head) {
    require(heads_per_kv_head <= kAttentionRows, std::to_string(heads_per_kv_head) +
                                                     " query heads read one KV head: more than " +
                                                     std::to_string(kAttentionRows) + " are not supported");
    queries_.limit_tokens(kAttentionRows / heads_per_kv_head);
}

void Program::limit_shared(int num_positions) { queries_.limit_shared(num_positions); }

void Program::reserve_scratch(size_t bytes) { scratch_bytes_ = std::max(scratch_bytes_, bytes); }

void Program::run(const Step& step, const Sampling* sampling, const Samples& samples) {
    const Busy busy(is_busy_);
    compute(step, sampling, samples, nullptr);
}

void Program::compute(const Step& step, const Sampling* sampling, const Samples& samples, StepTimes* times) {
    check(step);
    if (sampling) check(*sampling, step.num_samples);
    lay_out(step);
    step_ = &step;
    sampling_ = sampling;
    samples_ = &samples;
    times_ = times;
    look_at_sampling();
    for (size_t stage = 0; stage < stages_.size(); ++stage) num_pieces_[stage] = stages_[stage]->num_pieces(view());
    num_pieces_.back() = sampling ? (is_best_only_ ? 1 : step.num_samples) : 0;
    team_->run(*this, num_pieces_);
    if (const std::string failure = residency_ ? residency_->failure() : ""; !failure.empty()) {
        throw std::runtime_error(failure);
    }
}

std::vector<StageTime> Program::time(const Step& step, const Sampling* sampling, const Samples& samples) {
    const Busy busy(is_busy_);
    StepTimes times(limits_.num_threads, static_cast<int>(num_pieces_.size()));
    compute(step, sampling, samples, &times);
    return times.stages();
}

void Program::look_at_sampling() {
    is_best_only_ = sampling_ && picks_best_;
    for (int row = 0; row < step_->num_samples; ++row) {
        bests_[row].store(kNoCandidate, std::memory_order_relaxed);
        is_best_only_ = is_best_only_ && wants_best_only(*sampling_, row);
    }
}

StepView Program::view() const {
    return {limits_,
            *step_,
            row_sequences_.data(),
            queries_.tiles(),
            queries_.groups(),
            activations_.data(),
            is_decode_,
            is_best_only_ ? bests_.get() : nullptr};
}

Worker Program::worker(int thread) const {
    return {view(), kernels_, copies_[thread].data(), reinterpret_cast<float*>(scratches_[thread].data())};
}

void Program::enter(int thread, int stage) {
    if (times_) times_->enter(thread, stage);
    if (wait_for_data(stage) && times_) times_->wait(thread, stage);
    int first = stage;
    while (first > 0 && num_pieces_[first - 1] == 0) --first;
    for (; first < stage; ++first) stages_[first]->prepare(worker(thread));
}

// Whether it was not there yet.
bool Program::wait_for_data(int stage) const {
    const bool lacks_weights = stage < static_cast<int>(needed_.size()) && weights_->num_ready() < needed_[stage];
    if (lacks_weights) weights_->wait_for(needed_[stage]);
    return (stage < static_cast<int>(stages_.size()) && stages_[stage]->wait()) || lacks_weights;
}

void Program::run(int thread, int stage, int piece) {
    if (stage < static_cast<int>(stages_.size())) {
        stages_[stage]->run(worker(thread), piece);
    } else if (is_best_only_) {
        for (int row = 0; row < step_->num_samples; ++row) {
            const Candidate best = bests_[row].load(std::memory_order_relaxed);
            samples_->token_ids[row] = best == kNoCandidate ? 0 : id_of(best);
        }
    } else {
        draw(thread, piece);
    }
    if (times_) times_->end(thread, stage);
}

void Program::draw(int thread, int row) {
    samplers_[thread].draw(logits() + static_cast<size_t>(row) * vocab(), *sampling_, row, mask_of(thread, row),
                           *samples_);
}

const uint32_t* Program::mask_of(int thread, int row) {
    const int mask = mask_row(*sampling_, row);
    if (mask < 0) return nullptr;
    if (!times_) return masks_->wait_for(mask, sampling_->position[row]);
    const auto began = StepTimes::Clock::now();
    const uint32_t* allowed = masks_->wait_for(mask, sampling_->position[row]);
    times_->wait(thread, static_cast<int>(stages_.size()), StepTimes::Clock::now() - began);
    return allowed;
}

void Program::lay_out(const Step& step) {
    is_decode_ = true;
    for (int sequence = 0; sequence < step.num_sequences; ++sequence) {
        const int first = step.row_starts[sequence], last = step.row_starts[sequence + 1];
        is_decode_ = is_decode_ && last - first <= 1;
        std::fill(row_sequences_.begin() + first, row_sequences_.begin() + last, sequence);
    }
    queries_.build(step);
}

void Program::check(const Step& step) const {
    require(step.num_tokens <= limits_.max_tokens, "step: more tokens than planned for");
    require(step.num_samples <= limits_.max_samples, "step: more samples than planned for");
    require(step.num_sequences <= limits_.max_sequences, "step: more sequences than planned for");
    require(step.row_starts[0] == 0 && step.row_starts[step.num_sequences] == step.num_tokens,
            "step: row_starts do not cover the tokens");
    for (int row = 0; row < step.num_tokens; ++row) {
        require(is_within(step.token_ids[row], num_embeddings_),
                [&] { return "step: no token " + std::to_string(step.token_ids[row]); });
    }
    const int max_tokens = limits_.max_blocks_per_sequence * limits_.block_tokens;
    for (int n = 0; n < step.num_sequences; ++n) {
        const int rows = step.row_starts[n + 1] - step.row_starts[n];
        require(rows >= 0, "step: row_starts descend");
        require(is_within(step.slots[n], limits_.max_sequences),
                [&] { return "step: no slot " + std::to_string(step.slots[n]); });
        require(step.starts[n] >= 0 && step.starts[n] <= max_tokens - rows,
                "step: a sequence is longer than its row of the block table");
        const int32_t* blocks =
            step.block_tables + static_cast<size_t>(step.slots[n]) * limits_.max_blocks_per_sequence;
        for (int b = 0; b * limits_.block_tokens < step.starts[n] + rows; ++b) {
            require(is_within(blocks[b], limits_.num_blocks),
                    [&] { return "step: no block " + std::to_string(blocks[b]); });
        }
    }
    for (int s = 0; s < step.num_samples; ++s) {
        require(is_within(step.sample_rows[s], step.num_tokens), "step: a sampled row outside of the step");
    }
}

void Program::check(const Sampling& sampling, int num_samples) const {
    for (int row = 0; row < num_samples; ++row) {
        require(sampling.history_starts[row] <= sampling.history_starts[row + 1] &&
                    sampling.bias_starts[row] <= sampling.bias_starts[row + 1],
                "sampling: starts descend");
        const int history = sampling.history_starts[row + 1] - sampling.history_starts[row];
        require(sampling.history_prompt_tokens[row] >= 0 &&
                    (history == 0 || sampling.history_prompt_tokens[row] <= history),
                "sampling: more prompt tokens than the history has");
        require(mask_row(sampling, row) < masks_->num_rows(), "sampling: a row of the masks that there is not");
    }
    for (int i = 0; i < sampling.history_starts[num_samples]; ++i) {
        require(is_within(sampling.history_ids[i], vocab()), "sampling: a history token outside of the vocabulary");
    }
    for (int i = 0; i < sampling.bias_starts[num_samples]; ++i) {
        require(is_within(sampling.bias_ids[i], vocab()), "sampling: a biased token outside of the vocabulary");
    }
}

void Program::copy_block(int source, int target, int num_tokens) {
    require(is_within(source, limits_.num_blocks) && is_within(target, limits_.num_blocks),
            "copy_block: no block " + std::to_string(source) + " or " + std::to_string(target));
    require(num_tokens >= 0 && num_tokens <= limits_.block_tokens, "copy_block: more tokens than a block has");
    if (source == target) return;
    const Busy busy(is_busy_);
    const size_t groups = (num_tokens + kKeyGroup - 1) / kKeyGroup;
    for (const CacheView& cache : caches_) {
        for (int head = 0; head < cache.num_kv_heads; ++head) {
            uint8_t* first = cache.pool + head * cache.head_stride;
            std::memcpy(first + target * block_bytes_, first + source * block_bytes_, groups * cache.group_stride);
        }
    }
}

void Program::commit(int first, int count) {
    check_blocks("commit", first, count);
    const Busy busy(is_busy_);
    pool_.commit(first, count);
}

void Program::populate(int first, int count) {
    check_blocks("populate", first, count);
    const Busy busy(is_busy_);
    pool_.populate(first, count);
}

void Program::release(int first, int count) {
    check_blocks("release", first, count);
    const Busy busy(is_busy_);
    pool_.release(first, count);
}

void Program::check_blocks(const char* what, int first, int count) const {
    require(first >= 0 && count >= 0 && first <= limits_.num_blocks - count, [&] {
        return std::string(what) + ": no " + std::to_string(count) + " blocks from " + std::to_string(first) + " on";
    });
}

}  // namespace tailrace
