// Which tokens of a step attention takes together.
#pragma once

#include <limits>
#include <vector>

#include "program/step.h"

namespace tailrace {

class QueryPlan {
  public:
    // `num_kv_heads`: into how many pieces attention can cut each group.
    QueryPlan(const Limits& limits, int num_kv_heads);

    // Of a group, at most.
    void limit_tokens(int num_tokens) { max_tokens_ = num_tokens < max_tokens_ ? num_tokens : max_tokens_; }
    int max_tokens() const { return max_tokens_; }
    // Sequences that have more positions share nothing: each sees others of them.
    void limit_shared(int num_positions) { max_shared_ = num_positions < max_shared_ ? num_positions : max_shared_; }

    // Sequences that compute one token are grouped where their block tables begin alike; what attention then computes
    // is the same, but it reads the blocks they share once. All others are cut into tiles that are groups of their own.
    void build(const Step& step);

    const std::vector<QueryTile>& tiles() const { return tiles_; }
    const std::vector<QueryGroup>& groups() const { return groups_; }
    // Tokens of the step's contexts that are not read because another sequence of the group reads them.
    int64_t saved_tokens() const;

  private:
    void add_tiles(const Step& step, int sequence);
    void sort_decoding(const Step& step);
    void group_decoding();
    void add_groups(int first, int last, int shared_tokens);

    const Limits limits_;
    const int min_groups_;  // so that all threads have work
    int max_tokens_;
    int max_shared_ = std::numeric_limits<int>::max();
    int num_decoding_ = 0;
    std::vector<QueryTile> tiles_;  // the decoding ones first
    std::vector<int> common_;       // tokens that a decoding tile shares with the one behind it
    std::vector<QueryGroup> groups_;
};

}  // namespace tailrace
