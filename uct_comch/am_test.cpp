// Active messages: every kind, every size, every byte.
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "test_uct.hpp"

namespace comch::uct::test {
namespace {

/// Two interfaces on the two sides of a domain, and endpoints both ways.
struct ActiveMessages : testing::Test {
    Lab lab;
    Interface host{"host"};
    Interface dpu{"dpu"};
    Endpoint to_dpu{host, dpu};
    Endpoint to_host{dpu, host};

    void expect_message(std::uint8_t id, const std::vector<std::byte>& bytes) {
        ASSERT_TRUE(until([&] { return !dpu.messages.empty(); }, host, dpu));
        ASSERT_EQ(dpu.messages.size(), 1u);
        EXPECT_EQ(dpu.messages[0].id, id);
        ASSERT_EQ(dpu.messages[0].bytes.size(), bytes.size());
        EXPECT_TRUE(dpu.messages[0].bytes == bytes) << bytes.size() << " bytes, wrong content";
        dpu.messages.clear();
    }
};

std::vector<std::byte> with_header(std::uint64_t header, const std::vector<std::byte>& payload) {
    std::vector<std::byte> all;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        all.push_back(static_cast<std::byte>(header >> shift));
    }
    all.insert(all.end(), payload.begin(), payload.end());
    return all;
}

TEST_F(ActiveMessages, ShortOfEverySizeArriveWhole) {
    for (std::size_t length = 0; length + 8 <= host.attr.cap.am.max_short; ++length) {
        const auto payload = pattern(length, length);
        const std::uint64_t header = 0x0123456789abcdef ^ length;
        ASSERT_EQ(persist(
                      [&] {
                          return uct_ep_am_short(to_dpu, 3, header, payload.data(),
                                                 static_cast<unsigned>(length));
                      },
                      host, dpu),
                  UCS_OK);
        expect_message(3, with_header(header, payload));
        ASSERT_FALSE(HasFailure()) << "at " << length;
    }
}

TEST_F(ActiveMessages, AShortWithoutPayloadNeedsNoPointer) {
    ASSERT_EQ(uct_ep_am_short(to_dpu, 1, 7, nullptr, 0), UCS_OK);
    expect_message(1, with_header(7, {}));
    ASSERT_EQ(uct_ep_am_zcopy(to_dpu, 2, nullptr, 0, nullptr, 0, 0, nullptr), UCS_OK);
    expect_message(2, {});
    const uct_iov_t empty = iov_of(nullptr, 0);
    ASSERT_EQ(uct_ep_am_short_iov(to_dpu, 3, &empty, 1), UCS_OK);
    expect_message(3, {});
}

TEST_F(ActiveMessages, ShortVectorsAreGathered) {
    const auto data = pattern(host.attr.cap.am.max_short, 1);
    std::mt19937 random(1);
    for (int round = 0; round < 500; ++round) {
        const std::size_t count = random() % (host.attr.cap.am.max_iov + 1);
        std::vector<uct_iov_t> iov;
        std::vector<std::byte> expected;
        std::size_t left = data.size();
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t length = std::min<std::size_t>(left, random() % 130);
            iov.push_back(iov_of(data.data() + (data.size() - left), length));
            expected.insert(expected.end(), static_cast<std::byte*>(iov.back().buffer),
                            static_cast<std::byte*>(iov.back().buffer) + length);
            left -= length;
        }
        ASSERT_EQ(persist([&] { return uct_ep_am_short_iov(to_dpu, 9, iov.data(), iov.size()); },
                          host, dpu),
                  UCS_OK);
        expect_message(9, expected);
        ASSERT_FALSE(HasFailure()) << "in round " << round;
    }
    // The whole of it in one piece.
    const uct_iov_t all = iov_of(data.data(), data.size());
    ASSERT_EQ(uct_ep_am_short_iov(to_dpu, 9, &all, 1), UCS_OK);
    expect_message(9, data);
}

std::vector<std::size_t> interesting_sizes(std::size_t limit) {
    std::vector<std::size_t> sizes(300);
    std::iota(sizes.begin(), sizes.end(), 0);
    for (std::size_t size = 512; size <= limit; size *= 2) {
        for (const std::size_t near : {size - 9, size - 8, size - 1, size, size + 1, size + 8}) {
            if (near <= limit) {
                sizes.push_back(near);
            }
        }
    }
    sizes.push_back(limit - 1);
    sizes.push_back(limit);
    return sizes;
}

TEST_F(ActiveMessages, BcopyUpToTheLimitArriveWhole) {
    for (const std::size_t length : interesting_sizes(host.attr.cap.am.max_bcopy)) {
        const auto bytes = pattern(length, length + 1);
        Packing packing{bytes.data(), length};
        ASSERT_EQ(persist([&] { return uct_ep_am_bcopy(to_dpu, 31, Packing::pack, &packing, 0); },
                          host, dpu),
                  static_cast<ssize_t>(length));
        expect_message(31, bytes);
        ASSERT_FALSE(HasFailure()) << "at " << length;
    }
}

TEST(Alignment, BehindUcpsHeaderIsThatOfALine) {
    Lab lab;
    Interface host{
        "host", {}, true, {.rx_headroom = 64}}; // room in front of what is received: as UCP
    Interface dpu{"dpu"};
    Interface plain{"host"};
    Endpoint from_ucp{host, dpu};
    Endpoint from_other{plain, dpu};
    const auto bytes = pattern(4000, 1);
    std::uintptr_t address = 0;
    unsigned received = 0;
    dpu.on_message = [&](std::uint8_t, const std::byte* data, std::size_t length) {
        ASSERT_EQ(length, bytes.size());
        EXPECT_EQ(std::memcmp(data, bytes.data(), length), 0);
        address = reinterpret_cast<std::uintptr_t>(data);
        ++received;
    };
    for (unsigned i = 1; i <= 400; ++i) { // of each, more than a lap
        const bool ucp = i % 2 != 0;
        Packing packing{bytes.data(), bytes.size()};
        ASSERT_EQ(persist(
                      [&] {
                          return uct_ep_am_bcopy(ucp ? from_ucp : from_other, 1, Packing::pack,
                                                 &packing, 0);
                      },
                      host, plain, dpu),
                  static_cast<ssize_t>(bytes.size()));
        ASSERT_TRUE(until([&] { return received == i; }, host, plain, dpu));
        ASSERT_EQ((address + (ucp ? 8 : 0)) % 64, 0u) << i;
        // Zero-copy says itself how long the header is.
        const uct_iov_t iov = iov_of(bytes.data() + 24, bytes.size() - 24);
        if (ucp && i % 3 == 0) {
            --received;
            ASSERT_EQ(persist(
                          [&] {
                              return uct_ep_am_zcopy(from_other, 1, bytes.data(), 24, &iov, 1, 0,
                                                     nullptr);
                          },
                          host, plain, dpu),
                      UCS_OK);
            ASSERT_TRUE(until([&] { return received == i; }, host, plain, dpu));
            ASSERT_EQ((address + 24) % 64, 0u) << i;
        }
    }
}

TEST_F(ActiveMessages, ZcopyGathersHeaderAndVector) {
    const std::size_t limit = host.attr.cap.am.max_zcopy;
    const auto data = pattern(limit, 5);
    std::mt19937 random(2);
    for (const std::size_t length : interesting_sizes(limit)) {
        const std::size_t header = std::min<std::size_t>(
            length, random() % 3 == 0 ? random() % (host.attr.cap.am.max_hdr + 1) : random() % 16);
        const std::size_t count = 1 + random() % host.attr.cap.am.max_iov;
        std::vector<uct_iov_t> iov;
        std::size_t at = header;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t rest = length - at;
            const std::size_t piece = i + 1 == count ? rest : rest / (1 + random() % 4);
            iov.push_back(iov_of(data.data() + at, piece));
            at += piece;
        }
        Completion completion;
        const ucs_status_t status = persist(
            [&] {
                return uct_ep_am_zcopy(to_dpu, 17, data.data(), static_cast<unsigned>(header),
                                       iov.data(), iov.size(), 0, &completion.super);
            },
            host, dpu);
        ASSERT_EQ(finish(status, completion, host, dpu), UCS_OK);
        expect_message(17, {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(length)});
        ASSERT_FALSE(HasFailure()) << "at " << length << " in " << count << " pieces";
    }
}

TEST_F(ActiveMessages, WhatIsAboveTheLimitIsRefusedAndNothingIsSent) {
    const Log log;
    const auto data = pattern(2 * host.attr.cap.am.max_zcopy, 3);
    const auto too_short = static_cast<unsigned>(host.attr.cap.am.max_short - 8 + 1);
    EXPECT_EQ(uct_ep_am_short(to_dpu, 1, 0, data.data(), too_short), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(uct_ep_am_short(to_dpu, 1, 0, data.data(), 0xfffffff9u), UCS_ERR_INVALID_PARAM);
    const uct_iov_t above = iov_of(data.data(), host.attr.cap.am.max_short + 1);
    EXPECT_EQ(uct_ep_am_short_iov(to_dpu, 1, &above, 1), UCS_ERR_INVALID_PARAM);
    const uct_iov_t most = iov_of(data.data(), host.attr.cap.am.max_zcopy);
    EXPECT_EQ(uct_ep_am_zcopy(to_dpu, 1, data.data(), 1, &most, 1, 0, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_THAT(log.text(), testing::HasSubstr("above the limit of"));
    Log::lines().clear();
    const uct_iov_t one = iov_of(data.data(), 1);
    const auto header = static_cast<unsigned>(host.attr.cap.am.max_hdr);
    EXPECT_EQ(uct_ep_am_zcopy(to_dpu, 1, data.data(), header + 1, &one, 1, 0, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_THAT(log.text(), testing::HasSubstr("length of the header"));
    ASSERT_EQ(uct_ep_am_short(to_dpu, 5, 1, nullptr, 0), UCS_OK);
    expect_message(5, with_header(1, {}));
}

TEST_F(ActiveMessages, OfAnIdThatThereIsNotAreRefusedAndNothingIsSent) {
    const Log log;
    const auto data = pattern(64, 3);
    const uct_iov_t iov = iov_of(data.data(), data.size());
    Packing packing{data.data(), data.size()};
    for (const std::uint8_t id : {std::uint8_t{UCT_AM_ID_MAX}, std::uint8_t{255}}) {
        Log::lines().clear();
        EXPECT_EQ(uct_ep_am_short(to_dpu, id, 0, nullptr, 0), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_am_short(to_dpu, id, 0, data.data(), 64), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_am_short_iov(to_dpu, id, &iov, 1), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_am_bcopy(to_dpu, id, Packing::pack, &packing, 0), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_am_zcopy(to_dpu, id, nullptr, 0, &iov, 1, 0, nullptr),
                  UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(Log::lines().size(), 5u);
        EXPECT_THAT(log.text(),
                    testing::HasSubstr(fmt::format("active message id of an am_short is {}", id)));
    }
    ASSERT_EQ(uct_ep_am_short(to_dpu, UCT_AM_ID_MAX - 1, 1, nullptr, 0), UCS_OK);
    expect_message(UCT_AM_ID_MAX - 1, with_header(1, {}));
}

TEST_F(ActiveMessages, EveryIdReachesItsHandler) {
    for (std::uint8_t id = 0; id < UCT_AM_ID_MAX; ++id) {
        ASSERT_EQ(persist([&] { return uct_ep_am_short(to_dpu, id, id, nullptr, 0); }, host, dpu),
                  UCS_OK);
        expect_message(id, with_header(id, {}));
    }
}

TEST_F(ActiveMessages, AnEndpointToOneselfCarriesEveryKind) {
    Endpoint self(host, host);
    const auto data = pattern(host.attr.cap.am.max_bcopy, 11);
    ASSERT_EQ(uct_ep_am_short(self, 1, 5, data.data(), 100), UCS_OK);
    ASSERT_TRUE(until([&] { return host.messages.size() == 1; }, host));
    Packing packing{data.data(), data.size()};
    ASSERT_EQ(persist([&] { return uct_ep_am_bcopy(self, 2, Packing::pack, &packing, 0); }, host),
              static_cast<ssize_t>(data.size()));
    ASSERT_TRUE(until([&] { return host.messages.size() == 2; }, host));
    const uct_iov_t iov = iov_of(data.data(), 5000);
    ASSERT_EQ(
        persist([&] { return uct_ep_am_zcopy(self, 3, nullptr, 0, &iov, 1, 0, nullptr); }, host),
        UCS_OK);
    ASSERT_TRUE(until([&] { return host.messages.size() == 3; }, host));
    EXPECT_TRUE(host.messages[1].bytes == data);
    EXPECT_TRUE(std::equal(host.messages[2].bytes.begin(), host.messages[2].bytes.end(),
                           data.begin(), data.begin() + 5000));
    EXPECT_EQ(flush(self, host), UCS_OK);
}

TEST_F(ActiveMessages, SentBeforeThePeerHasProgressedTheyArriveInOrder) {
    Interface late("dpu");
    Endpoint early(host, late);
    std::uint64_t sent = 0;
    // As many as fit, without the peer having been asked at all.
    while (uct_ep_am_short(early, 4, sent, nullptr, 0) == UCS_OK) {
        ++sent;
        ASSERT_LT(sent, 1'000'000u);
    }
    EXPECT_GE(sent, 16u);
    ASSERT_TRUE(until([&] { return late.messages.size() == sent; }, host, late));
    for (std::uint64_t i = 0; i < sent; ++i) {
        ASSERT_EQ(late.messages[i].bytes, with_header(i, {}));
    }
}

TEST_F(ActiveMessages, AMixOfKindsBothWaysKeepsOrderAndContent) {
    struct Stream {
        Interface& from;
        uct_ep_h ep;
        std::mt19937 random;
        std::uint64_t sent = 0;
        std::uint64_t received = 0;
        bool retry = false;
        std::size_t length = 0;
        unsigned kind = 0;
        std::vector<std::byte> bytes = {};

        /// One step; true if something was sent.
        bool send(std::uint64_t total) {
            if (sent == total) {
                return false;
            }
            if (!retry) {
                kind = static_cast<unsigned>(random() % 3);
                length = random() % 16 == 0  ? random() % from.attr.cap.am.max_bcopy
                         : random() % 4 == 0 ? random() % 2048
                                             : random() % 200;
                if (kind == 0) {
                    length = std::min(length, from.attr.cap.am.max_short - 8);
                }
                bytes = pattern(length, sent);
            }
            ssize_t status = 0;
            switch (kind) {
            case 0:
                status = uct_ep_am_short(ep, 0, sent, bytes.data(), static_cast<unsigned>(length));
                break;
            case 1: {
                Packing packing{bytes.data(), length};
                status = uct_ep_am_bcopy(ep, 1, Packing::pack, &packing, 0);
                break;
            }
            default: {
                const uct_iov_t iov = iov_of(bytes.data(), length);
                status = uct_ep_am_zcopy(ep, 2, nullptr, 0, &iov, 1, 0, nullptr);
            }
            }
            retry = status == UCS_ERR_NO_RESOURCE;
            EXPECT_TRUE(retry || status >= 0) << ucs_status_string(ucs_status_t(status));
            sent += retry ? 0 : 1;
            return !retry;
        }
        void receive(std::uint8_t id, const std::byte* data, std::size_t size) {
            if (id == 0) {
                std::uint64_t number = 0;
                std::memcpy(&number, data, 8);
                ASSERT_EQ(number, received);
                data += 8;
                size -= 8;
            }
            const auto expected = pattern(size, received);
            ASSERT_TRUE(std::equal(expected.begin(), expected.end(), data)) << received;
            ++received;
        }
    };
    Stream down{host, to_dpu, std::mt19937(7)};
    Stream up{dpu, to_host, std::mt19937(8)};
    dpu.on_message = [&](auto id, auto data, auto size) { down.receive(id, data, size); };
    host.on_message = [&](auto id, auto data, auto size) { up.receive(id, data, size); };
    constexpr std::uint64_t total = 20'000;
    std::mt19937 random(9);
    ASSERT_TRUE(until(
        [&] {
            for (unsigned burst = random() % 64; burst != 0 && down.send(total); --burst) {
            }
            for (unsigned burst = random() % 64; burst != 0 && up.send(total); --burst) {
            }
            return HasFailure() || (down.received == total && up.received == total);
        },
        host, dpu));
    EXPECT_EQ(down.received, total);
    EXPECT_EQ(up.received, total);
}

TEST_F(ActiveMessages, AHandlerMaySendCreateAndDestroy) {
    std::vector<Endpoint> made;
    int rounds = 0;
    dpu.on_message = [&](auto, auto, auto) {
        made.clear();
        made.emplace_back(dpu, host);
        EXPECT_EQ(uct_ep_am_short(made.back(), 1, 2, nullptr, 0), UCS_OK);
    };
    host.on_message = [&](auto, auto, auto) {
        if (++rounds < 200) {
            EXPECT_EQ(uct_ep_am_short(to_dpu, 1, 2, nullptr, 0), UCS_OK);
        }
    };
    ASSERT_EQ(uct_ep_am_short(to_dpu, 1, 2, nullptr, 0), UCS_OK);
    ASSERT_TRUE(until([&] { return rounds == 200; }, host, dpu));
    EXPECT_TRUE(host.failures.empty());
    EXPECT_TRUE(dpu.failures.empty());
}

} // namespace
} // namespace comch::uct::test
