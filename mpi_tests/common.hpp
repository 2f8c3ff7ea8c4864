// What all the test programs share: start and end of MPI, groups of cases, and the comparison of
// what a group moved between ranks with what comch counted.
#pragma once

#include "pattern.hpp"
#include "report.hpp"
#include "traffic.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpi_tests {

class Session {
public:
    /// `level` is the thread level that the test cannot do without.
    Session(int argc, char** argv, const char* name, int level = MPI_THREAD_SINGLE)
        : arguments_(argv + 1, argv + argc) {
        program_name = name;
        for (std::size_t i = 0; i < arguments_.size(); ++i) {
            if (arguments_[i] == "--without") {
                without_.push_back(i + 1 < arguments_.size() ? arguments_[i + 1] : "");
            }
        }
        left_out_.resize(without_.size());
        int provided = MPI_THREAD_SINGLE;
        MPI_Init_thread(&argc, &argv, level, &provided);
        require(provided >= level,
                "this MPI provides thread level {} ({}), but the test needs {} ({}): use an MPI "
                "and a UCX that were built with support for threads",
                provided, level_name(provided), level, level_name(level));
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
        require(std::find(without_.begin(), without_.end(), "") == without_.end(),
                "--without names no group: give a part of its name");
        require(size_ >= 2, "at least 2 ranks are needed, there is {}", size_);
        // The session's own exchanges must not match the test's.
        MPI_Comm_dup(MPI_COMM_WORLD, &control_);
    }

    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    /// The rank `distance` further on in the ring of all.
    [[nodiscard]] int neighbour(int distance) const {
        return ((rank_ + distance) % size_ + size_) % size_;
    }

    [[nodiscard]] bool flag(std::string_view name) const {
        return std::find(arguments_.begin(), arguments_.end(), name) != arguments_.end();
    }
    /// The value of `--name value`, or `fallback`.
    [[nodiscard]] std::string option(std::string_view name, std::string fallback) const {
        const auto found = std::find(arguments_.begin(), arguments_.end(), name);
        return found == arguments_.end() || found + 1 == arguments_.end() ? std::move(fallback)
                                                                          : *(found + 1);
    }

    /// The test tells what it moved between two different ranks; each transfer is told by one of
    /// the ranks that take part.
    void moved(std::uint64_t bytes, std::uint64_t messages = 1) {
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
        messages_.fetch_add(messages, std::memory_order_relaxed);
    }
    /// The same, for a send or one-sided operation that may go to the rank itself.
    void moved_to(int peer, std::uint64_t bytes, std::uint64_t messages = 1) {
        if (peer != rank_) {
            moved(bytes, messages);
        }
    }

    /// The same, for this rank's share of a collective operation: what it must send or receive,
    /// whatever the algorithm. With nothing to move there need be no message.
    void moved_by_collective(std::uint64_t bytes) { moved(bytes, bytes > 0 ? 1 : 0); }

    void barrier() { MPI_Barrier(control_); }

    /// Runs one group of cases on all ranks and prints one line. Between the two barriers only
    /// the group's own traffic is under way, so the counters grow by at least what it moved.
    /// Groups whose name contains what a `--without` says are left out.
    template <typename Body> void group(std::string_view name, Body&& body) {
        if (is_left_out(name)) {
            if (rank_ == 0) {
                fmt::print("{}: {:<44} left out\n", program_name, name);
            }
            return;
        }
        barrier();
        bytes_ = 0;
        messages_ = 0;
        const Traffic before = counted();
        const auto start = std::chrono::steady_clock::now();
        body();
        barrier();
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        check_and_print(name, before, elapsed.count());
    }

    /// Ends MPI, by `end`; the program returns what this returns.
    template <typename End> int finish(End&& end) {
        for (std::size_t i = 0; i < without_.size(); ++i) {
            require(left_out_[i], "--without {}: there is no such group", without_[i]);
        }
        if (counters_required()) {
            check_side();
        }
        MPI_Comm_free(&control_);
        end();
        if (rank_ == 0) {
            fmt::print("PASS {}\n", program_name);
            std::fflush(stdout);
        }
        return 0;
    }
    int finish() { return finish(MPI_Finalize); }

    /// The counters so far; zero if they are not asked for, or this process has none yet.
    Traffic counted() {
        if (!counters_required()) {
            return {};
        }
        if (!counters_) {
            counters_ = OwnCounters::find();
        }
        return counters_ ? counters_->read() : Traffic{};
    }

private:
    bool is_left_out(std::string_view group) {
        bool is = false;
        for (std::size_t i = 0; i < without_.size(); ++i) {
            if (group.find(without_[i]) != std::string_view::npos) {
                is = left_out_[i] = true;
            }
        }
        return is;
    }

    static const char* level_name(int level) {
        switch (level) {
        case MPI_THREAD_SINGLE:
            return "MPI_THREAD_SINGLE";
        case MPI_THREAD_FUNNELED:
            return "MPI_THREAD_FUNNELED";
        case MPI_THREAD_SERIALIZED:
            return "MPI_THREAD_SERIALIZED";
        case MPI_THREAD_MULTIPLE:
            return "MPI_THREAD_MULTIPLE";
        default:
            return "unknown";
        }
    }

    void check_and_print(std::string_view name, Traffic before, double seconds) {
        const Traffic after = counted();
        const unsigned long long mine[4] = {bytes_.load(), messages_.load(),
                                            after.bytes - before.bytes,
                                            after.messages - before.messages};
        unsigned long long all[4] = {};
        MPI_Allreduce(mine, all, 4, MPI_UNSIGNED_LONG_LONG, MPI_SUM, control_);
        const bool checked = counters_required();
        if (checked && rank_ == 0) {
            require(counters_.has_value(),
                    "{}: no counter file of process {} in {}: this process has opened no comch "
                    "device (is libuct_comch.so in LD_PRELOAD, and comch in UCX_TLS?)",
                    name, ::getpid(), domain_directory());
            require(all[2] >= all[0],
                    "{}: the ranks moved {} bytes, but comch counted only {}: the rest went past "
                    "it",
                    name, all[0], all[2]);
            require(all[3] >= all[1],
                    "{}: the ranks exchanged {} messages, but comch counted only {}: the rest "
                    "went past it",
                    name, all[1], all[3]);
        }
        if (rank_ == 0) {
            const std::string counters =
                checked ? fmt::format(", comch counted {:.3f} MiB in {}", in_mib(all[2]), all[3])
                        : std::string();
            fmt::print("{}: {:<44} ok  {:.2f} s, at least {:.3f} MiB in {} messages{}\n",
                       program_name, name, seconds, in_mib(all[0]), all[1], counters);
            std::fflush(stdout);
        }
    }

    void check_side() {
        require(counters_.has_value(), "no counter file of process {} in {}", ::getpid(),
                domain_directory());
        const char* side = std::getenv("COMCH_SIDE");
        if (side != nullptr) {
            counters_->check_side(std::string_view(side) == "dpu" ? comch::Side::dpu
                                                                  : comch::Side::host);
        }
    }

    static double in_mib(unsigned long long bytes) { return double(bytes) / (1024.0 * 1024.0); }

    std::vector<std::string> arguments_;
    std::vector<std::string> without_; ///< parts of groups' names,
    std::vector<bool> left_out_;       ///< and whether there are such groups
    int rank_ = 0;
    int size_ = 0;
    MPI_Comm control_ = MPI_COMM_NULL;
    std::atomic<std::uint64_t> bytes_ = 0;
    std::atomic<std::uint64_t> messages_ = 0;
    std::optional<OwnCounters> counters_;
};

/// 0, 1, 2, and every power of two up to `largest` with its two neighbours.
inline std::vector<std::size_t> sweep_sizes(std::size_t largest) {
    std::vector<std::size_t> sizes = {0, 1, 2};
    for (std::size_t power = 4; power <= largest; power *= 2) {
        sizes.insert(sizes.end(), {power - 1, power, power + 1});
    }
    return sizes;
}

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;
inline constexpr std::size_t gib = 1024 * mib;

} // namespace mpi_tests
