// Which experts a mixture is likely to choose, from what the mixture before it has chosen in the same step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tailrace {

class Forecast {
  public:
    // One more mixture, behind those before.
    void add(int num_experts);

    // A mixture has chosen, after the one before it had.
    void learn(int mixture, const std::vector<int>& before, const std::vector<int>& chosen);
    // At most `count` experts of a mixture, likeliest first; none of whom nothing speaks for them.
    std::vector<int> likeliest(int mixture, const std::vector<int>& before, size_t count) const;

  private:
    struct Pairs {
        int num_experts;
        std::vector<uint16_t> counts;  // [experts before][experts]: how often they were chosen together
    };

    uint16_t* counts_of(int mixture, int before);
    const uint16_t* counts_of(int mixture, int before) const;

    std::vector<Pairs> pairs_;
};

}  // namespace tailrace
