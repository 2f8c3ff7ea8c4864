// Whether the writer of a bulk ring, having sent an answer, asks for the lines of the next one.
//
// They come while the peer reads this one, or they delay what it reads: 4 KiB to and fro take 0.9 of the time on one
// machine, and 1.3 times as long on another. So both are timed now and then, by stretches of answers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/link/soft/tuning.hpp"
#include "core/link/soft/way_trial.hpp"

namespace comch::link::soft {

class AskingAhead {
public:
    [[nodiscard]] bool now() const noexcept { return asks_; }

    /// One more answer was sent. True: took() is to be told when.
    [[nodiscard]] bool answered() noexcept { return --left_ == 0; }
    void took(std::uint64_t now_ns) noexcept;

private:
    enum : std::size_t { does_not, does, ways };

    bool asks_ = false;
    std::uint32_t left_ = tuning::asking_stretch; ///< answers of this stretch
    std::uint64_t to_come_ = tuning::asking_first_trial;
    std::uint64_t began_ = 0; ///< this stretch; 0: nobody looked
    WayTrial<ways, tuning::asking_samples> trial_;
};

} // namespace comch::link::soft
