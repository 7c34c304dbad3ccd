#include "program/residency.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tailrace {

Residency::Residency(std::shared_ptr<Weights> weights, size_t max_bytes)
    : weights_(std::move(weights)), max_bytes_(max_bytes) {}

int Residency::add(const std::vector<std::vector<int>>& experts) {
    Mixture mixture;
    for (const std::vector<int>& matrices : experts) {
        Expert expert;
        expert.matrices = matrices;
        for (int id : matrices) expert.bytes += weights_->bytes_of(id);
        mixture.experts.push_back(std::move(expert));
    }
    mixtures_.push_back(std::move(mixture));
    forecast_.add(static_cast<int>(experts.size()));
    return static_cast<int>(mixtures_.size()) - 1;
}

void Residency::choose(int number, const ExpertPlan& plan) {
    const std::lock_guard lock(mutex_);
    Mixture& mixture = mixtures_[number];
    ++now_;
    mixture.chosen.clear();
    for (int expert = 0; expert < static_cast<int>(mixture.experts.size()); ++expert) {
        if (plan.num_rows_of(expert) > 0) mixture.chosen.push_back(expert);
    }
    chosen_at_ = std::chrono::steady_clock::now();
    for (int expert : mixture.chosen) touch({number, expert}, is_broad(mixture));
    make_room(0, true);
    if (number > 0 && !is_broad(mixture) && !is_broad(mixtures_[number - 1])) {
        judge(mixture);
        forecast_.learn(number, mixtures_[number - 1].chosen, mixture.chosen);
    }
    foresee(number + 1);
    if (!wanted_.empty() || !foreseen_.empty()) news_.notify_all();
}

void Residency::touch(ExpertId id, bool is_broad) {
    Expert& chosen = expert(id);
    chosen.pinned = now_;
    if (!is_broad) chosen.used = now_;
    if (chosen.state == State::kResident) {
        ++counts_.hits;
        counts_.foreseen_hits += std::exchange(chosen.is_foreseen, false);
        return;
    }
    ++counts_.misses;
    if (is_over_) return;
    num_missing_.fetch_add(1, std::memory_order_relaxed);
    if (chosen.state == State::kAbsent) wanted_.push_back(id);
    if (chosen.state == State::kAbsent) chosen.state = State::kWanted;
}

void Residency::judge(const Mixture& mixture) {
    if (mixture.likely.empty()) return;
    const auto count = std::count_if(mixture.likely.begin(), mixture.likely.end(), [&](int expert) {
        return std::binary_search(mixture.chosen.begin(), mixture.chosen.end(), expert);
    });
    accuracy_ += (static_cast<double>(count) / mixture.likely.size() - accuracy_) / 64;
}

void Residency::foresee(int number) {
    // To fill an expert in vain takes as long as to wait for it, and somebody else may have to go for it.
    constexpr double kWorthwhile = 0.35;
    foreseen_.clear();
    if (number == static_cast<int>(mixtures_.size())) return;
    const Mixture& before = mixtures_[number - 1];
    Mixture& mixture = mixtures_[number];
    const bool is_certain = is_whole(before);  // prompts so long that they need everybody
    if (is_certain) {
        mixture.likely.resize(mixture.experts.size());
        std::iota(mixture.likely.begin(), mixture.likely.end(), 0);
    } else {
        mixture.likely = forecast_.likeliest(number, before.chosen, before.chosen.size());
        if (accuracy_ < kWorthwhile) return;
    }
    for (int likely : mixture.likely) {
        Expert& foreseen = mixture.experts[likely];
        foreseen.foreseen_for = now_ + 1;
        if (foreseen.state == State::kAbsent && !foreseen.has_failed) foreseen_.push_back({number, likely});
    }
}

bool Residency::wait() const {
    bool has_waited = false;
    for (int missing = num_missing_.load(std::memory_order_acquire); missing > 0;
         missing = num_missing_.load(std::memory_order_acquire)) {
        num_missing_.wait(missing, std::memory_order_acquire);
        has_waited = true;
    }
    return has_waited;
}

std::string Residency::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

std::optional<ExpertId> Residency::take() {
    std::optional<ExpertId> taken;
    {
        std::unique_lock lock(mutex_);
        news_.wait(lock, [&] { return is_over_ || (taken = next()).has_value(); });
    }
    if (taken) weights_->populate(expert(*taken).matrices);
    return taken;
}

std::optional<ExpertId> Residency::next() {
    if (is_over_) return std::nullopt;
    const bool is_chosen = !wanted_.empty();
    std::deque<ExpertId>& queue = is_chosen ? wanted_ : foreseen_;
    while (!queue.empty()) {
        const ExpertId id = queue.front();
        Expert& first = expert(id);
        queue.pop_front();
        if (!is_chosen && first.state != State::kAbsent) continue;
        if (!make_room(first.bytes, is_chosen) && !is_chosen) {
            queue.clear();
            break;
        }
        first.state = State::kFilling;
        first.is_foreseen = !is_chosen;
        bytes_ += first.bytes;
        counts_.foreseen += !is_chosen;
        return id;
    }
    return std::nullopt;
}

void Residency::done(ExpertId id) {
    const std::lock_guard lock(mutex_);
    Expert& filled = expert(id);
    filled.state = State::kResident;
    filled.filled = now_;
    ++counts_.num_resident;
    if (filled.pinned != now_ || is_over_) return;
    filled.is_foreseen = false;
    if (num_missing_.fetch_sub(1, std::memory_order_release) > 1) return;
    counts_.waited_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - chosen_at_).count();
    num_missing_.notify_all();
}

// Evicts until so many bytes more may be there; whether they may.
bool Residency::make_room(size_t bytes, bool is_chosen) {
    while (bytes_ + bytes > max_bytes_) {
        Expert* first = victim(is_chosen);
        if (!first) return false;
        evict(*first);
    }
    return true;
}

// Who was not used for longest goes first, and of those that tell nothing, who came last: while many experts pass by,
// layer after layer, the next ones stay. Nobody goes who was chosen by the mixture that is being computed; for somebody
// who is just foreseen, nobody else who is.
Residency::Expert* Residency::victim(bool is_chosen) {
    Expert* first = nullptr;
    const auto key = [this](const Expert& expert) {
        const bool is_likely = expert.foreseen_for >= now_;
        return std::pair(is_likely ? now_ : expert.used, now_ - expert.filled);
    };
    for (Mixture& mixture : mixtures_) {
        for (Expert& expert : mixture.experts) {
            if (expert.state != State::kResident || expert.pinned == now_) continue;
            if (!is_chosen && expert.foreseen_for >= now_) continue;
            if (!first || key(expert) < key(*first)) first = &expert;
        }
    }
    return first;
}

void Residency::forget(Expert& expert) {
    weights_->release(expert.matrices);
    expert.state = State::kAbsent;
    expert.is_foreseen = false;
    bytes_ -= expert.bytes;
}

void Residency::evict(Expert& expert) {
    forget(expert);
    --counts_.num_resident;
    ++counts_.evictions;
}

void Residency::fail(ExpertId id, const std::string& reason) {
    {
        const std::lock_guard lock(mutex_);
        Expert& failed = expert(id);
        failed.has_failed = true;
        if (failed.pinned != now_) {
            forget(failed);
            return;
        }
    }
    end(reason);
}

void Residency::fail(const std::string& reason) { end(reason); }

void Residency::close() { end(""); }

void Residency::end(const std::string& failure) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = failure;
    is_over_ = true;
    num_missing_.store(0, std::memory_order_release);
    num_missing_.notify_all();
    news_.notify_all();
}

ResidencyCounts Residency::counts() const {
    const std::lock_guard lock(mutex_);
    ResidencyCounts counts = counts_;
    counts.resident_bytes = bytes_;
    return counts;
}

}  // namespace tailrace
