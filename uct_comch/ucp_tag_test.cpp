// Tagged messages over UCP, between a host and a DPU process: every size and protocol, every byte.
#include <cstdlib>
#include <random>

#include <unistd.h>

#include "core/counters/counter_files.hpp"
#include "test_ucp.hpp"

namespace comch::uct::test {
namespace {

class Tag : public ByMemory {};

const std::size_t sizes[] = {
    0,       1,       7,       8,     9,       47,      48,      55,           56,
    57,      64,      100,     239,   240,     241,     248,     249,          1000,
    1008,    1016,    1024,    1025,  2048,    4096,    8191,    8192,         8193,
    16384,   32752,   32760,   32767, 32768,   32769,   65536,   100'000,      262'144,
    524'288, 524'289, mib - 1, mib,   mib + 1, 4 * mib, 8 * mib, 16 * mib - 1, 16 * mib};

TEST_P(Tag, EverySizeBothWays) {
    run_job(options(), [&](Party& party) {
        const Buffer out(party.context, 16 * mib, mapped());
        const Buffer in(party.context, 16 * mib + 64, mapped());
        for (std::uint64_t i = 0; i < std::size(sizes); ++i) {
            const std::size_t size = sizes[i];
            const bool sync = i % 3 == 0;
            in.clear();
            out.fill(size, 2 * i + party.rank());
            // Both at once; the message finds its receive posted, or waits for it.
            ucs_status_ptr_t received = nullptr;
            if (i % 2 == 0) {
                received = party.receive(in.data(), size, i);
                party.barrier();
            }
            const ucs_status_ptr_t sent =
                party.send(party.ep(), out.data(), size, i, ucp_dt_make_contig(1), sync);
            if (i % 2 != 0) {
                for (int turn = 0; turn < 200; ++turn) {
                    party.progress();
                }
                received = party.receive(in.data(), size, i);
            }
            ASSERT_EQ(party.wait(received), UCS_OK) << size;
            ASSERT_EQ(party.wait(sent), UCS_OK) << size;
            ASSERT_TRUE(in.holds(size, 2 * i + 1 - party.rank())) << size << " bytes";
            ASSERT_EQ(in.data()[size], std::byte{0xee}) << "behind " << size << " bytes";
        }
    });
}

TEST_P(Tag, ManyAtOnceOfAllSizes) {
    run_job(options(), [&](Party& party) {
        constexpr std::size_t count = 400;
        constexpr std::size_t largest = 200'000;
        std::mt19937 random(3); // the same on both sides
        std::vector<std::size_t> lengths;
        for (std::size_t i = 0; i < count; ++i) {
            lengths.push_back(i % 4 == 0 ? random() % largest : random() % 3000);
        }
        std::vector<std::vector<std::byte>> out;
        std::vector<std::vector<std::byte>> in;
        std::vector<ucs_status_ptr_t> requests;
        for (std::size_t i = 0; i < count; ++i) {
            out.push_back(pattern(lengths[i], i + party.rank() * 1000));
            in.emplace_back(lengths[i] + 1);
            if (i % 2 == 0) {
                requests.push_back(party.receive(in[i].data(), lengths[i], i));
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            requests.push_back(party.send(party.ep(), out[i].data(), lengths[i], i));
        }
        for (std::size_t i = 1; i < count; i += 2) {
            requests.push_back(party.receive(in[i].data(), lengths[i], i));
        }
        for (const ucs_status_ptr_t request : requests) {
            ASSERT_EQ(party.wait(request), UCS_OK);
        }
        for (std::size_t i = 0; i < count; ++i) {
            in[i].pop_back();
            ASSERT_TRUE(in[i] == pattern(lengths[i], i + (1 - party.rank()) * 1000)) << i;
        }
    });
}

TEST_P(Tag, OneTagKeepsTheOrderOfSending) {
    run_job(options(), [&](Party& party) {
        constexpr std::uint64_t count = 3000;
        std::mt19937 random(4);
        std::vector<ucs_status_ptr_t> requests;
        std::vector<std::vector<std::byte>> buffers;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::size_t size = 8 + (random() % 20 == 0 ? random() % 50'000 : random() % 500);
            buffers.emplace_back(size);
            if (party.first()) {
                buffers.back() = pattern(size, i);
                requests.push_back(party.send(party.ep(), buffers.back().data(), size, 7));
            } else {
                requests.push_back(party.receive(buffers.back().data(), size, 7));
            }
        }
        for (std::uint64_t i = 0; i < count; ++i) {
            ASSERT_EQ(party.wait(requests[i]), UCS_OK);
            ASSERT_TRUE(buffers[i] == pattern(buffers[i].size(), i)) << i;
        }
    });
}

TEST_P(Tag, ATooSmallBufferIsAnErrorOfItsReceiveOnly) {
    run_job(options(), [&](Party& party) {
        for (const std::size_t size : {std::size_t{100}, std::size_t{20'000}, 2 * mib}) {
            const auto bytes = pattern(size, 1);
            std::vector<std::byte> in(size);
            if (party.first()) {
                ASSERT_EQ(party.wait(party.send(party.ep(), bytes.data(), size, 1)), UCS_OK);
                ASSERT_EQ(party.wait(party.send(party.ep(), bytes.data(), size, 2)), UCS_OK);
            } else {
                ASSERT_EQ(party.wait(party.receive(in.data(), size / 2, 1)),
                          UCS_ERR_MESSAGE_TRUNCATED);
                ASSERT_EQ(party.wait(party.receive(in.data(), size, 2)), UCS_OK);
                ASSERT_TRUE(in == bytes);
            }
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Job, Tag, ByMemory::all(), name_of_case);

/// Of this process, ever.
std::uint64_t one_sided_operations() {
    const auto domain = Domain::open({});
    const auto processes = counters::read_counter_files(**domain);
    std::uint64_t sum = 0;
    for (const auto& process : *processes) {
        for (const auto& connection : process.connections) {
            const bool ours = process.pid == static_cast<std::uint64_t>(getpid());
            sum += ours ? connection.figures.tx_one_sided : 0;
        }
    }
    return sum;
}

TEST(LongMessages, AreOneGetWhereverTheirBuffersBegin) {
    run_job({}, [](Party& party) {
        constexpr std::size_t size = 256 * 1024;
        std::vector<std::byte> buffer(size + 4096);
        for (const std::size_t offset : {0, 1, 16, 63, 1000}) {
            std::byte* const at = buffer.data() + offset;
            const auto bytes = pattern(size, offset);
            if (party.first()) {
                std::copy(bytes.begin(), bytes.end(), at);
                ASSERT_EQ(party.wait(party.send(party.ep(), at, size, offset)), UCS_OK);
            } else {
                const std::uint64_t before = one_sided_operations();
                ASSERT_EQ(party.wait(party.receive(at, size, offset)), UCS_OK);
                EXPECT_EQ(one_sided_operations(), before + 1) << offset;
                ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), at));
            }
        }
    });
}

TEST(TagDatatypes, VectorsAreGatheredAndScattered) {
    for (const bool error_handling : {false, true}) {
        JobOptions options;
        options.error_handling = error_handling;
        run_job(options, [&](Party& party) {
            std::mt19937 random(6);
            for (int round = 0; round < 120; ++round) {
                // The two sides cut the same bytes differently.
                const std::size_t size = round % 3 == 0 ? random() % (2 * mib) : random() % 5000;
                const std::size_t cuts[2] = {1 + random() % 40, 1 + random() % 40};
                std::vector<std::byte> bytes = party.first() ? pattern(size, std::uint64_t(round))
                                                             : std::vector<std::byte>(size);
                std::vector<ucp_dt_iov_t> iov;
                std::size_t at = 0;
                const std::size_t count = cuts[party.rank()];
                for (std::size_t i = 0; i < count; ++i) {
                    const std::size_t piece =
                        i + 1 == count ? size - at : (size - at) / (count - i);
                    iov.push_back({bytes.data() + at, piece});
                    at += piece;
                }
                const auto tag = static_cast<ucp_tag_t>(round);
                const ucs_status_ptr_t request =
                    party.first()
                        ? party.send(party.ep(), iov.data(), count, tag, ucp_dt_make_iov())
                        : party.receive(iov.data(), count, tag, ucp_dt_make_iov());
                ASSERT_EQ(party.wait(request), UCS_OK);
                ASSERT_TRUE(bytes == pattern(size, std::uint64_t(round))) << size;
            }
        });
    }
}

/// A datatype that packs bytes in reverse, so that a plain copy would show.
struct Reversed {
    std::byte* data;
    std::size_t length;

    static ucp_datatype_t make() {
        ucp_generic_dt_ops_t ops{};
        ops.start_pack = [](void*, const void* buffer, std::size_t count) -> void* {
            return new Reversed{static_cast<std::byte*>(const_cast<void*>(buffer)), count};
        };
        ops.start_unpack = [](void*, void* buffer, std::size_t count) -> void* {
            return new Reversed{static_cast<std::byte*>(buffer), count};
        };
        ops.packed_size = [](void* state) { return static_cast<Reversed*>(state)->length; };
        ops.pack = [](void* state, std::size_t offset, void* to, std::size_t room) {
            const auto& self = *static_cast<Reversed*>(state);
            const std::size_t n = std::min(room, self.length - offset);
            for (std::size_t i = 0; i < n; ++i) {
                static_cast<std::byte*>(to)[i] = self.data[self.length - 1 - offset - i];
            }
            return n;
        };
        ops.unpack = [](void* state, std::size_t offset, const void* from, std::size_t n) {
            const auto& self = *static_cast<Reversed*>(state);
            for (std::size_t i = 0; i < n; ++i) {
                self.data[self.length - 1 - offset - i] = static_cast<const std::byte*>(from)[i];
            }
            return UCS_OK;
        };
        ops.finish = [](void* state) { delete static_cast<Reversed*>(state); };
        ucp_datatype_t type = 0;
        check_ok(ucp_dt_create_generic(&ops, nullptr, &type), "ucp_dt_create_generic");
        return type;
    }
};

TEST(TagDatatypes, GenericOnesArePackedByTheirOwner) {
    run_job({}, [&](Party& party) {
        const ucp_datatype_t type = Reversed::make();
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100},
                                       std::size_t{5000}, std::size_t{40'000}, 3 * mib + 1}) {
            auto bytes = pattern(size, size);
            if (party.first()) {
                ASSERT_EQ(party.wait(party.send(party.ep(), bytes.data(), size, size, type)),
                          UCS_OK);
                ASSERT_EQ(party.wait(party.send(party.ep(), bytes.data(), size, size + 1, type)),
                          UCS_OK);
            } else {
                std::vector<std::byte> in(size);
                ASSERT_EQ(party.wait(party.receive(in.data(), size, size, type)), UCS_OK);
                ASSERT_TRUE(in == bytes) << size;
                ASSERT_EQ(party.wait(party.receive(in.data(), size, size + 1)), UCS_OK);
                std::reverse(in.begin(), in.end());
                ASSERT_TRUE(in == bytes) << size << ", as packed";
            }
        }
        ucp_dt_destroy(type);
    });
}

TEST(TagJob, FourProcessesOnTwoSidesAllToAll) {
    JobOptions options;
    options.processes = 4;
    run_job(options, [](Party& party) {
        constexpr unsigned n = 4;
        for (std::uint64_t round = 0; round < 30; ++round) {
            const std::size_t size = round % 5 == 0 ? 300'000 : 1 + round * 97;
            std::vector<std::vector<std::byte>> out;
            std::vector<std::vector<std::byte>> in(n, std::vector<std::byte>(size));
            std::vector<ucs_status_ptr_t> requests;
            for (unsigned i = 0; i < n; ++i) { // oneself included
                requests.push_back(party.receive(in[i].data(), size, round * n + i));
                out.push_back(pattern(size, round * 100 + party.rank() * n + i));
            }
            for (unsigned i = 0; i < n; ++i) {
                requests.push_back(
                    party.send(party.ep(i), out[i].data(), size, round * n + party.rank()));
            }
            for (const ucs_status_ptr_t request : requests) {
                ASSERT_EQ(party.wait(request), UCS_OK);
            }
            for (unsigned i = 0; i < n; ++i) {
                ASSERT_TRUE(in[i] == pattern(size, round * 100 + i * n + party.rank()));
            }
        }
    });
}

TEST(TagJob, OneGibibyte) {
    // Takes 3 GiB and some seconds: by default a smaller one of the same kind.
    const bool whole = std::getenv("COMCH_TEST_HUGE") != nullptr;
    const std::size_t size = whole ? std::size_t{1} << 30 : 48 * mib + 5;
    run_job({}, [&](Party& party) {
        auto bytes = pattern(size, 1);
        if (party.first()) {
            ASSERT_EQ(party.wait(party.send(party.ep(), bytes.data(), size, 1)), UCS_OK);
        } else {
            std::vector<std::byte> in(size);
            ASSERT_EQ(party.wait(party.receive(in.data(), size, 1)), UCS_OK);
            ASSERT_TRUE(in == bytes);
        }
    });
}

} // namespace
} // namespace comch::uct::test
