// The collective operations that move bytes, each as something that can be started blocking or
// nonblocking and whose result is then checked byte by byte.
#pragma once

#include "common.hpp"

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace mpi_tests {

/// One operation with its buffers; they live as long as it does.
struct Operation {
    std::string what;
    std::function<void()> blocking;
    std::function<void(MPI_Request*)> nonblocking;
    std::function<void()> verify;
};

/// Memory for one block per rank, at places of its own.
class Blocks {
public:
    enum class Placement {
        packed,    ///< one behind the other, all of the same size
        scattered, ///< the last first, with gaps between them, sizes differing
    };

    Blocks(int number, std::function<std::size_t(int)> size_of, Placement placement)
        : counts_(std::size_t(number)), places_(std::size_t(number)) {
        // A single block is not displaced: MPICH 4.0.2's allgatherv of one rank ignores where.
        const std::size_t gap = placement == Placement::packed || number == 1 ? 0 : 5;
        std::size_t end = gap;
        for (int k = 0; k < number; ++k) {
            const auto i = std::size_t(placement == Placement::packed ? k : number - 1 - k);
            counts_[i] = int(size_of(int(i)));
            places_[i] = int(end);
            end += std::size_t(counts_[i]) + gap;
        }
        memory_ = std::make_unique<Buffer>(end);
        size_ = end;
        std::memset(memory_->arm(end), gap_value, end);
    }

    [[nodiscard]] int* counts() { return counts_.data(); }
    [[nodiscard]] int* places() { return places_.data(); }
    [[nodiscard]] std::byte* data() { return memory_->data(); }
    [[nodiscard]] std::span<std::byte> block(int i) {
        return memory_->first(size_).subspan(std::size_t(places_[std::size_t(i)]),
                                             std::size_t(counts_[std::size_t(i)]));
    }
    [[nodiscard]] std::size_t total() const {
        return std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
    }
    void fill(int i, Key key) { Pattern(key).fill(block(i)); }

    /// `key_of(i)` says what block i must hold.
    template <typename KeyOf> void verify(const std::string& what, KeyOf&& key_of) {
        std::vector<bool> is_block(size_, false);
        for (int i = 0; i < int(counts_.size()); ++i) {
            mpi_tests::verify(what, key_of(i), block(i));
            const auto start = is_block.begin() + places_[std::size_t(i)];
            std::fill(start, start + counts_[std::size_t(i)], true);
        }
        for (std::size_t b = 0; b < size_; ++b) {
            require(is_block[b] || data()[b] == std::byte{gap_value},
                    "{}: byte {} between the blocks was overwritten", what, b);
        }
    }

private:
    static constexpr unsigned char gap_value = 0x77;

    std::vector<int> counts_;
    std::vector<int> places_;
    std::unique_ptr<Buffer> memory_;
    std::size_t size_ = 0;
};

/// What the operations of one program share.
class CollectiveCases {
public:
    CollectiveCases(Session& session, MPI_Comm comm) : session_(session), comm_(comm) {
        MPI_Comm_rank(comm, &rank_);
        MPI_Comm_size(comm, &size_);
    }

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }

    Operation bcast(int root, std::size_t length) {
        auto buffer = std::make_shared<Buffer>(length);
        const Key key{root, 0, next_tag()};
        buffer->arm(length);
        if (rank_ == root) {
            buffer->fill(key, length);
        } else {
            std::memset(buffer->data(), 0, length);
            session_.moved_by_collective(length);
        }
        const std::string what = fmt::format("bcast of {} bytes from rank {}", length, root);
        return {what, [=, this] { MPI_Bcast(buffer->data(), int(length), MPI_BYTE, root, comm_); },
                [=, this](MPI_Request* request) {
                    MPI_Ibcast(buffer->data(), int(length), MPI_BYTE, root, comm_, request);
                },
                [=] { buffer->verify(what, key, length); }};
    }

    /// With `varied`, MPI_Gatherv.
    Operation gather(int root, std::size_t length, bool varied, bool in_place) {
        const int tag = next_tag();
        const auto size_of = sizes(length, varied);
        const auto key_of = [=](int i) { return Key{i, root, tag}; };
        auto in = std::make_shared<Blocks>(rank_ == root ? size_ : 0, size_of, placement(varied));
        auto out = std::make_shared<Buffer>(size_of(rank_));
        out->fill(key_of(rank_), size_of(rank_));
        const int count = int(size_of(rank_));
        if (rank_ != root) {
            session_.moved_by_collective(size_of(rank_));
        }
        const void* source = out->data();
        if (in_place && rank_ == root) {
            in->fill(root, key_of(root));
            source = MPI_IN_PLACE;
        }
        const std::string what = describe("gather", length, varied, in_place, root);
        return {what,
                [=, this] {
                    if (varied) {
                        MPI_Gatherv(source, count, MPI_BYTE, in->data(), in->counts(), in->places(),
                                    MPI_BYTE, root, comm_);
                    } else {
                        MPI_Gather(source, count, MPI_BYTE, in->data(), count, MPI_BYTE, root,
                                   comm_);
                    }
                },
                [=, this](MPI_Request* request) {
                    if (varied) {
                        MPI_Igatherv(source, count, MPI_BYTE, in->data(), in->counts(),
                                     in->places(), MPI_BYTE, root, comm_, request);
                    } else {
                        MPI_Igather(source, count, MPI_BYTE, in->data(), count, MPI_BYTE, root,
                                    comm_, request);
                    }
                },
                [=] {
                    (void)out; // lives until here
                    in->verify(what, key_of);
                }};
    }

    /// With `varied`, MPI_Scatterv.
    Operation scatter(int root, std::size_t length, bool varied, bool in_place) {
        const int tag = next_tag();
        const auto size_of = sizes(length, varied);
        const auto key_of = [=](int i) { return Key{root, i, tag}; };
        auto out = std::make_shared<Blocks>(rank_ == root ? size_ : 0, size_of, placement(varied));
        for (int i = 0; rank_ == root && i < size_; ++i) {
            out->fill(i, key_of(i));
        }
        const std::size_t own = size_of(rank_);
        auto in = std::make_shared<Buffer>(own);
        void* target = in->arm(own);
        const bool checks_in = !(in_place && rank_ == root);
        if (!checks_in) {
            target = MPI_IN_PLACE;
        }
        if (rank_ != root) {
            session_.moved_by_collective(own);
        }
        const int rank = rank_;
        const std::string what = describe("scatter", length, varied, in_place, root);
        return {what,
                [=, this] {
                    if (varied) {
                        MPI_Scatterv(out->data(), out->counts(), out->places(), MPI_BYTE, target,
                                     int(own), MPI_BYTE, root, comm_);
                    } else {
                        MPI_Scatter(out->data(), int(own), MPI_BYTE, target, int(own), MPI_BYTE,
                                    root, comm_);
                    }
                },
                [=, this](MPI_Request* request) {
                    if (varied) {
                        MPI_Iscatterv(out->data(), out->counts(), out->places(), MPI_BYTE, target,
                                      int(own), MPI_BYTE, root, comm_, request);
                    } else {
                        MPI_Iscatter(out->data(), int(own), MPI_BYTE, target, int(own), MPI_BYTE,
                                     root, comm_, request);
                    }
                },
                [=] {
                    if (checks_in) {
                        in->verify(what, key_of(rank), own);
                    }
                    out->verify(what, key_of); // the root's blocks are only read
                }};
    }

    /// With `varied`, MPI_Allgatherv.
    Operation allgather(std::size_t length, bool varied, bool in_place) {
        const int tag = next_tag();
        const auto size_of = sizes(length, varied);
        const auto key_of = [=](int i) { return Key{i, 0, tag}; };
        auto in = std::make_shared<Blocks>(size_, size_of, placement(varied));
        auto out = std::make_shared<Buffer>(size_of(rank_));
        out->fill(key_of(rank_), size_of(rank_));
        const int count = int(size_of(rank_));
        session_.moved_by_collective(in->total() - size_of(rank_));
        const void* source = out->data();
        if (in_place) {
            in->fill(rank_, key_of(rank_));
            source = MPI_IN_PLACE;
        }
        const std::string what = describe("allgather", length, varied, in_place);
        return {what,
                [=, this] {
                    if (varied) {
                        MPI_Allgatherv(source, count, MPI_BYTE, in->data(), in->counts(),
                                       in->places(), MPI_BYTE, comm_);
                    } else {
                        MPI_Allgather(source, count, MPI_BYTE, in->data(), count, MPI_BYTE, comm_);
                    }
                },
                [=, this](MPI_Request* request) {
                    if (varied) {
                        MPI_Iallgatherv(source, count, MPI_BYTE, in->data(), in->counts(),
                                        in->places(), MPI_BYTE, comm_, request);
                    } else {
                        MPI_Iallgather(source, count, MPI_BYTE, in->data(), count, MPI_BYTE, comm_,
                                       request);
                    }
                },
                [=] {
                    (void)out;
                    in->verify(what, key_of);
                }};
    }

    enum class Exchange { alltoall, alltoallv, alltoallw };

    /// In place, what comes from a rank replaces what went to it, so the sizes must agree.
    Operation alltoall(Exchange kind, std::size_t length, bool in_place) {
        const int tag = next_tag();
        const int rank = rank_;
        const bool varied = kind != Exchange::alltoall;
        // Symmetric: rank i sends as much to j as j to i.
        const auto size_of = [=](int peer) {
            return varied ? length + std::size_t((peer + rank) * 37 % 11) : length;
        };
        auto out = std::make_shared<Blocks>(size_, size_of, placement(varied));
        auto in = std::make_shared<Blocks>(size_, size_of, placement(varied));
        auto types = std::make_shared<std::vector<MPI_Datatype>>(std::size_t(size_), MPI_BYTE);
        for (int i = 0; i < size_; ++i) {
            (in_place ? in : out)->fill(i, {rank, i, tag});
        }
        session_.moved_by_collective(in->total() - size_of(rank));
        const void* source = in_place ? MPI_IN_PLACE : out->data();
        const char* names[] = {"alltoall", "alltoallv", "alltoallw"};
        const std::string what = describe(names[int(kind)], length, false, in_place);
        return {what,
                [=, this] {
                    switch (kind) {
                    case Exchange::alltoall:
                        MPI_Alltoall(source, int(length), MPI_BYTE, in->data(), int(length),
                                     MPI_BYTE, comm_);
                        break;
                    case Exchange::alltoallv:
                        MPI_Alltoallv(source, out->counts(), out->places(), MPI_BYTE, in->data(),
                                      in->counts(), in->places(), MPI_BYTE, comm_);
                        break;
                    case Exchange::alltoallw:
                        MPI_Alltoallw(source, out->counts(), out->places(), types->data(),
                                      in->data(), in->counts(), in->places(), types->data(), comm_);
                        break;
                    }
                },
                [=, this](MPI_Request* request) {
                    switch (kind) {
                    case Exchange::alltoall:
                        MPI_Ialltoall(source, int(length), MPI_BYTE, in->data(), int(length),
                                      MPI_BYTE, comm_, request);
                        break;
                    case Exchange::alltoallv:
                        MPI_Ialltoallv(source, out->counts(), out->places(), MPI_BYTE, in->data(),
                                       in->counts(), in->places(), MPI_BYTE, comm_, request);
                        break;
                    case Exchange::alltoallw:
                        MPI_Ialltoallw(source, out->counts(), out->places(), types->data(),
                                       in->data(), in->counts(), in->places(), types->data(), comm_,
                                       request);
                        break;
                    }
                },
                [=] {
                    in->verify(what, [&](int i) { return Key{i, rank, tag}; });
                    (void)out;
                    (void)types;
                }};
    }

    /// All of the above with one length; every `root` in turn for those that have one.
    std::vector<Operation> all(std::size_t length, const std::vector<int>& roots, bool in_place) {
        std::vector<Operation> operations;
        for (const int root : roots) {
            if (!in_place) {
                operations.push_back(bcast(root, length));
            }
            for (const bool varied : {false, true}) {
                operations.push_back(gather(root, length, varied, in_place));
                operations.push_back(scatter(root, length, varied, in_place));
            }
        }
        for (const bool varied : {false, true}) {
            operations.push_back(allgather(length, varied, in_place));
        }
        for (const auto kind : {Exchange::alltoall, Exchange::alltoallv, Exchange::alltoallw}) {
            operations.push_back(alltoall(kind, length, in_place));
        }
        return operations;
    }

    /// All ranks as roots; or, for what is large, the first, the last and one in the middle.
    [[nodiscard]] std::vector<int> roots(bool every) const {
        std::vector<int> result;
        for (int i = 0; i < size_; ++i) {
            if (every || i == 0 || i == size_ / 2 || i == size_ - 1) {
                result.push_back(i);
            }
        }
        return result;
    }

private:
    [[nodiscard]] static std::function<std::size_t(int)> sizes(std::size_t length, bool varied) {
        return [=](int i) { return varied ? length + std::size_t(i * 37 % 11) : length; };
    }

    [[nodiscard]] static Blocks::Placement placement(bool varied) {
        return varied ? Blocks::Placement::scattered : Blocks::Placement::packed;
    }

    [[nodiscard]] static std::string describe(const char* name, std::size_t length, bool varied,
                                              bool in_place, int root = -1) {
        return fmt::format("{}{} of {} bytes{}{}", name, varied ? "v" : "", length,
                           in_place ? ", in place" : "",
                           root < 0 ? "" : fmt::format(", root {}", root));
    }

    /// The same on all ranks: collectives are created in the same order everywhere.
    int next_tag() { return ++tag_; }

    Session& session_;
    MPI_Comm comm_;
    int rank_ = 0;
    int size_ = 0;
    int tag_ = 0;
};

} // namespace mpi_tests
