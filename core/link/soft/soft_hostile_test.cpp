// Peers that break every rule, by hand and at random. The victim never crashes and never reads out
// of bounds (the tests run under the address sanitizer), keeps its other connections, and either
// goes on or ends the connection with protocol_error.
#include <array>
#include <optional>
#include <thread>

#include <sys/mman.h>
#include <sys/stat.h>

#include "core/link/soft/test_random.hpp"
#include "core/link/soft/test_raw_peer.hpp"
#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch::link::soft::test {
namespace {

using std::chrono::milliseconds;

/// The victim, and a well-behaved peer of it that must not notice anything.
class Hostile : public ::testing::Test {
protected:
    Lab lab;
    std::shared_ptr<Domain> domain = lab.domain();
    End victim{lab, Side::dpu};
    End friendly{lab, Side::host};
    Connected good = connect(friendly, victim);
    std::uint64_t echoes = 0;

    ~Hostile() override { check_the_friend(); }

    /// A message there and one back.
    void check_the_friend() {
        ++echoes;
        std::uint64_t got = 0;
        victim.seen.message_hook = [&](Connection& c, std::uint8_t id, const std::byte* data,
                                       std::uint32_t length) {
            if (&c == good.acceptor) {
                EXPECT_EQ(c.send(id, {data, length}), Errc::ok);
            }
        };
        friendly.seen.message_hook = [&](Connection&, std::uint8_t, const std::byte* data,
                                         std::uint32_t length) {
            ASSERT_EQ(length, sizeof(got));
            std::memcpy(&got, data, sizeof(got));
        };
        EXPECT_EQ(good.initiator->send(1, raw(echoes)), Errc::ok);
        EXPECT_TRUE(until([&] { return got == echoes; }, friendly, victim));
        EXPECT_TRUE(friendly.seen.ends.empty());
        victim.seen.message_hook = nullptr;
        friendly.seen.message_hook = nullptr;
    }
    /// The victim closed the socket without accepting; what it said before, if anything.
    std::optional<Errc> refusal(RawPeer& peer) {
        const std::size_t before = victim.seen.peers.size();
        EXPECT_TRUE(until([&] { return readable(peer.socket.get(), milliseconds(0)); }, victim));
        EXPECT_EQ(victim.seen.peers.size(), before) << "the sink was asked";
        const auto answer = peer.answer();
        EXPECT_TRUE(until([&] { return peer.closed(); }, victim));
        return answer ? std::optional(static_cast<Errc>(answer->code)) : std::nullopt;
    }
    /// Each end is told once, and forgotten: the next connection may have the same address.
    Reason end_of(const Connection* connection) {
        const auto find = [&] {
            return std::find_if(victim.seen.ends.begin(), victim.seen.ends.end(),
                                [&](const auto& end) { return end.connection == connection; });
        };
        EXPECT_TRUE(until([&] { return find() != victim.seen.ends.end(); }, victim));
        const auto end = find();
        if (end == victim.seen.ends.end()) {
            return Reason::closed;
        }
        const Reason reason = end->reason;
        victim.seen.ends.erase(end);
        EXPECT_TRUE(find() == victim.seen.ends.end()) << "told twice";
        return reason;
    }
    bool alive(const Connection* connection) {
        settle(milliseconds(1), victim);
        return std::none_of(victim.seen.ends.begin(), victim.seen.ends.end(),
                            [&](const auto& end) { return end.connection == connection; });
    }
};

// ---- the first packet --------------------------------------------------------------------------

TEST_F(Hostile, GarbageInsteadOfAHelloIsDropped) {
    Random random(1);
    for (const std::size_t length : {1u, 2u, 15u, 16u, 17u, 24u, 300u, 560u, 561u, 5000u}) {
        std::vector<std::byte> garbage(length);
        for (std::byte& b : garbage) {
            b = static_cast<std::byte>(random());
        }
        RawPeer peer(domain);
        ASSERT_TRUE(peer.connect(victim));
        ASSERT_TRUE(send_raw(peer.socket.get(), garbage, {}));
        EXPECT_EQ(refusal(peer), std::nullopt) << length;
    }
    RawPeer silent(domain);
    ASSERT_TRUE(silent.connect(victim));
    silent.socket.reset();
    settle(milliseconds(1), victim);
}

TEST_F(Hostile, AHelloOfAnotherLengthOrVersionIsAnotherVersion) {
    for (const std::size_t length : {16ul, 17ul, 40ul, sizeof(wire::Hello) - 1}) {
        RawPeer peer(domain);
        ASSERT_TRUE(peer.connect(victim));
        ASSERT_TRUE(send_raw(peer.socket.get(), raw(peer.hello).first(length), {}));
        EXPECT_EQ(refusal(peer), Errc::version_mismatch) << length;
    }
    for (const std::uint32_t version :
         {0u, protocol_version - 1, protocol_version + 1, 0xffffffffu}) {
        for (const std::size_t length : {16ul, sizeof(wire::Hello), sizeof(wire::Hello) + 1000}) {
            RawPeer peer(domain);
            peer.hello.version = version;
            std::vector<std::byte> packet(length);
            std::memcpy(packet.data(), &peer.hello, std::min(length, sizeof(peer.hello)));
            ASSERT_TRUE(peer.connect(victim));
            ASSERT_TRUE(send_raw(peer.socket.get(), packet, {}));
            EXPECT_EQ(refusal(peer), Errc::version_mismatch) << version << ", " << length;
        }
    }
    RawPeer peer(domain);
    peer.hello.size = 1;
    ASSERT_TRUE(peer.connect(victim));
    ASSERT_TRUE(peer.say_hello());
    EXPECT_EQ(refusal(peer), Errc::version_mismatch);
}

TEST_F(Hostile, AHelloWithWrongFieldsIsRefused) {
    const auto expect = [&](Errc code, auto change) {
        RawPeer peer(domain);
        change(peer.hello);
        ASSERT_TRUE(peer.connect(victim));
        ASSERT_TRUE(peer.say_hello());
        EXPECT_EQ(refusal(peer), code);
    };
    expect(Errc::not_permitted, [](wire::Hello& hello) { hello.domain[3] ^= 1; });
    expect(Errc::invalid_argument, [](wire::Hello& hello) { hello.side = 2; });
    expect(Errc::invalid_argument, [](wire::Hello& hello) { hello.process_id = 0; });
    expect(Errc::invalid_argument, [](wire::Hello& hello) { hello.service_length = 257; });
    expect(Errc::invalid_argument, [](wire::Hello& hello) { hello.service_length = 65535; });
    expect(Errc::invalid_argument, [](wire::Hello& hello) { hello.private_length = 257; });
    expect(Errc::invalid_argument, [](wire::Hello& hello) { hello.private_length = 65535; });
    expect(Errc::not_found, [](wire::Hello& hello) {
        hello.service_length = 256;
        std::memset(hello.service, 'x', sizeof(hello.service));
        hello.service_function = hello.function;
    });
    const FunctionId function = device_of(domain, Side::host).function().id;
    ASSERT_TRUE(victim.port->listen({function, "s"}).has_value());
    expect(Errc::not_permitted, [&](wire::Hello& hello) { // of another function
        hello.service_length = 1;
        hello.service[0] = 's';
        hello.service_function = function;
        hello.function = function + 1;
    });
    expect(Errc::not_found, [&](wire::Hello& hello) {
        hello.service_length = 1;
        hello.service[0] = 's';
        hello.service_function = function + 1;
    });
}

TEST_F(Hostile, DescriptorsThatAreNotWhatTheyShouldBeAreRefused) {
    const auto expect_refused = [&](std::vector<int> descriptors, const char* what) {
        RawPeer peer(domain);
        ASSERT_TRUE(peer.connect(victim));
        ASSERT_TRUE(send_raw(peer.socket.get(), raw(peer.hello), descriptors));
        const auto code = refusal(peer);
        EXPECT_NE(code, Errc::ok) << what;
    };
    const UniqueFd process = own_process();
    const RawPeer owner(domain);
    const int memfd = owner.memfd.get();
    const std::size_t size = owner.segment.size();
    const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const UniqueFd null(::open("/dev/zero", O_RDWR | O_CLOEXEC));
    const UniqueFd unsealed = test_memfd(size, 0);
    const UniqueFd half_sealed = test_memfd(size, F_SEAL_SHRINK);
    const UniqueFd empty = test_memfd(0);
    const UniqueFd page = test_memfd(4096);
    const UniqueFd zeros = test_memfd(size);
    for (const int fd : {unsealed.get(), half_sealed.get()}) { // well-formed, but could be cut
        const SegmentHeader header{segment_magic, protocol_version, tuning::ring_cells, {}};
        ASSERT_EQ(::pwrite(fd, &header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
    }
    expect_refused({}, "none");
    expect_refused({memfd}, "one");
    expect_refused({memfd, process.get(), process.get()}, "three");
    expect_refused({memfd, process.get(), memfd, memfd, memfd, memfd, memfd, memfd}, "eight");
    expect_refused({process.get(), memfd}, "exchanged");
    expect_refused({memfd, memfd}, "a memfd for a process");
    expect_refused({memfd, event.get()}, "an eventfd for a process");
    expect_refused({memfd, file.get()}, "a file for a process");
    expect_refused({memfd, victim.port->event_fd()}, "an epoll for a process");
    expect_refused({unsealed.get(), process.get()}, "unsealed");
    expect_refused({half_sealed.get(), process.get()}, "half sealed");
    expect_refused({empty.get(), process.get()}, "empty");
    expect_refused({page.get(), process.get()}, "one page");
    expect_refused({zeros.get(), process.get()}, "no header");
    expect_refused({file.get(), process.get()}, "a file");
    expect_refused({null.get(), process.get()}, "a device");
    expect_refused({event.get(), process.get()}, "an eventfd");
    EXPECT_EQ(victim.seen.accepted.size(), 1u) << "the friend";
}

TEST_F(Hostile, ASegmentWithAnotherLayoutIsRefused) {
    struct Case {
        std::uint64_t magic;
        std::uint32_t version;
        std::uint32_t cells;
        std::size_t size;
    };
    const std::size_t size = ring_offset + 2ul * tuning::ring_cells * cell_size;
    for (const Case& c : {Case{segment_magic + 1, protocol_version, 512, size},
                          Case{segment_magic, protocol_version + 1, 512, size},
                          Case{segment_magic, protocol_version, 0, size},
                          Case{segment_magic, protocol_version, 1, size},
                          Case{segment_magic, protocol_version, 256, size},
                          Case{segment_magic, protocol_version, 511, size},
                          Case{segment_magic, protocol_version, 1024, size},
                          Case{segment_magic, protocol_version, 0x80000000u, size},
                          Case{segment_magic, protocol_version, 512, size - 4096}}) {
        RawPeer peer(domain);
        peer.memfd = test_memfd(c.size);
        const SegmentHeader header{c.magic, c.version, c.cells, {}};
        ASSERT_EQ(::pwrite(peer.memfd.get(), &header, sizeof(header), 0),
                  static_cast<ssize_t>(sizeof(header)));
        ASSERT_TRUE(peer.connect(victim));
        ASSERT_TRUE(peer.say_hello());
        EXPECT_NE(refusal(peer).value_or(Errc::io), Errc::ok) << c.cells;
    }
}

TEST_F(Hostile, StrangersThatSayNothingKeepNobodyOut) {
    const auto start = std::chrono::steady_clock::now();
    const Holdings before = Holdings::now();
    std::vector<std::unique_ptr<RawPeer>> strangers;
    for (unsigned i = 0; i < 600; ++i) {
        auto peer = std::make_unique<RawPeer>(domain);
        ASSERT_TRUE(peer->connect(victim)) << i;
        peer->memfd.reset();
        peer->segment = Mapping();
        peer->pipe = Pipe();
        strangers.push_back(std::move(peer));
        if (i % 50 == 0) {
            check_the_friend();
        }
    }
    const std::size_t ours = strangers.size();
    const std::size_t surplus = ours - tuning::max_strangers;
    const auto dropped = [&](std::size_t first, std::size_t last) {
        std::size_t count = 0;
        for (std::size_t i = first; i < last; ++i) {
            count += strangers[i]->closed() ? 1 : 0;
        }
        return count;
    };
    EXPECT_TRUE(until([&] { return dropped(0, surplus) == surplus; }, victim)) << "the oldest";
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited < std::chrono::nanoseconds(tuning::stranger_timeout_ns)) {
        EXPECT_EQ(dropped(surplus, ours), 0u);
    }
    EXPECT_LE(Holdings::now().descriptors, before.descriptors + ours + tuning::max_strangers);
    {
        End late(lab, Side::host);
        Connection* const met = connect(late, victim).acceptor;
        ASSERT_NE(met, nullptr);
        late.port.reset();
        EXPECT_EQ(end_of(met), Reason::closed);
        victim.port->close(met);
    }
    strangers.clear();
    EXPECT_TRUE(comes_to_hold(before, victim))
        << "now " << Holdings::now() << ", before " << before;
}

TEST_F(Hostile, ManyThatConnectAtOnceAreAllMet) {
    // More than the strangers that may wait, but each says hello.
    std::vector<std::unique_ptr<RawPeer>> peers;
    for (unsigned i = 0; i < 400; ++i) {
        peers.push_back(std::make_unique<RawPeer>(domain));
        ASSERT_TRUE(peers.back()->connect(victim));
        ASSERT_TRUE(peers.back()->say_hello());
    }
    EXPECT_TRUE(until([&] { return victim.seen.accepted.size() == 401; }, victim));
    for (const auto& peer : peers) {
        const auto answer = peer->answer();
        ASSERT_TRUE(answer.has_value());
        EXPECT_EQ(answer->code, 0);
    }
    for (std::size_t i = 1; i < victim.seen.accepted.size(); ++i) {
        victim.port->close(victim.seen.accepted[i]);
    }
}

TEST_F(Hostile, ASinkMayDoAnythingWhenItIsAsked) {
    const FunctionId function = device_of(domain, Side::host).function().id;
    ASSERT_TRUE(victim.port->listen({function, "once"}).has_value());
    victim.seen.request_hook = [&](Connection& c) {
        EXPECT_EQ(c.send(1, bytes_of("first")), Errc::ok);
        victim.port->unlisten({function, "once"});
    };
    RawPeer one(domain);
    RawPeer two(domain);
    for (RawPeer* peer : {&one, &two}) { // both in one batch of events
        peer->hello.service_length = 4;
        std::memcpy(peer->hello.service, "once", 4);
        peer->hello.service_function = function;
        ASSERT_TRUE(peer->connect(name_entry(function, "once")));
        ASSERT_TRUE(peer->say_hello());
    }
    ASSERT_TRUE(until([&] { return victim.seen.accepted.size() == 2; }, victim));
    settle(milliseconds(1), victim);
    EXPECT_EQ(victim.seen.accepted.size(), 2u);

    victim.seen.request_hook = [&](Connection& c) { victim.port->close(&c); };
    RawPeer three(domain);
    ASSERT_TRUE(three.connect(victim));
    ASSERT_TRUE(three.say_hello());
    ASSERT_TRUE(until([&] { return three.closed(); }, victim));
    victim.seen.request_hook = nullptr;
    settle(milliseconds(1), victim);
}

// ---- packets -----------------------------------------------------------------------------------

TEST_F(Hostile, PacketsThatNobodyAskedForEndTheConnection) {
    const auto ends = [&](std::span<const std::byte> packet, std::vector<int> descriptors,
                          const char* what) {
        RawPeer peer(domain);
        peer.join(victim);
        ASSERT_TRUE(send_raw(peer.socket.get(), packet, descriptors));
        EXPECT_EQ(end_of(peer.connection), Reason::protocol_error) << what;
        victim.port->close(peer.connection);
    };
    const auto packet = [](std::uint32_t type, std::uint64_t value = 0, std::uint64_t extra = 0,
                           std::uint32_t flags = 0) {
        return wire::Packet{type, flags, value, extra};
    };
    const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    const UniqueFd memfd = test_memfd(1 << 16);
    const UniqueFd unsealed = test_memfd(1 << 16, 0);
    RawPeer other(domain);
    const int segment = other.memfd.get();
    int pair[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const UniqueFd left(pair[0]);
    const UniqueFd right(pair[1]);
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const UniqueFd stream(pair[0]);
    const UniqueFd stream_peer(pair[1]);
    const UniqueFd listening(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listening.get(), std::array<sockaddr, 1>{{{AF_UNIX, {}}}}.data(),
                     sizeof(sa_family_t)),
              0);
    ASSERT_EQ(::listen(listening.get(), 1), 0);

    ends(raw(packet(0)), {}, "type 0");
    ends(raw(packet(6)), {}, "type 6");
    ends(raw(packet(~0u)), {}, "the largest type");
    ends(raw(packet(1)).first(23), {}, "a cut packet");
    ends(raw(packet(1)).first(1), {}, "one byte");
    const std::vector<std::byte> longer(200, std::byte{1});
    ends(longer, {}, "a long packet");
    const std::vector<std::byte> longest(5000, std::byte{1});
    ends(longest, {}, "a packet that does not fit");
    ends(raw(packet(1)), {event.get(), event.get(), event.get()}, "three descriptors");
    ends(raw(packet(2, 1 << 16)), {}, "a bulk ring without memory");
    ends(raw(packet(2, 1 << 16)), {event.get()}, "a bulk ring that is no memory");
    ends(raw(packet(2, 1 << 16)), {unsealed.get()}, "an unsealed bulk ring");
    ends(raw(packet(2, 1 << 17)), {memfd.get()}, "a bulk ring that is too small");
    ends(raw(packet(2, 0)), {memfd.get()}, "a bulk ring of no size");
    ends(raw(packet(2, 3000)), {memfd.get()}, "a bulk ring of an odd size");
    ends(raw(packet(2, ~0ull)), {memfd.get()}, "a bulk ring of any size");
    ends(raw(packet(4, 1, 4096)), {memfd.get()}, "a mapping that nobody asked for");
    ends(raw(packet(4, 1, 0)), {}, "a refusal that nobody asked for");
    ends(raw(packet(5)), {}, "a channel of nothing");
    ends(raw(packet(5)), {segment}, "a channel without socket");
    ends(raw(packet(5)), {left.get(), segment}, "a channel the wrong way round");
    ends(raw(packet(5)), {segment, event.get()}, "a channel with an eventfd");
    ends(raw(packet(5)), {segment, memfd.get()}, "a channel with a file");
    ends(raw(packet(5)), {segment, stream.get()}, "a channel with a stream");
    ends(raw(packet(5)), {segment, listening.get()}, "a channel with a listener");
    ends(raw(packet(5)), {memfd.get(), left.get()}, "a channel without a segment");
    EXPECT_TRUE(victim.seen.channels.empty());
}

TEST_F(Hostile, ABulkRingIsAttachedOnce) {
    RawPeer peer(domain);
    peer.join(victim);
    const UniqueFd memfd = test_memfd(1 << 16);
    const std::array<int, 1> fds{memfd.get()};
    ASSERT_TRUE(peer.packet({2, 0, 1 << 16, 0}, fds));
    EXPECT_TRUE(alive(peer.connection));
    ASSERT_TRUE(peer.packet({2, 0, 1 << 16, 0}, fds));
    EXPECT_EQ(end_of(peer.connection), Reason::protocol_error);
}

TEST_F(Hostile, MappingsOfUnknownRegionsAreRefusedOneByOne) {
    RawPeer peer(domain);
    peer.join(victim);
    Random random(2);
    for (unsigned i = 0; i < 50; ++i) {
        const std::uint64_t region = random.wide();
        ASSERT_TRUE(peer.packet({3, 0, region, 0}));
        ASSERT_TRUE(until([&] { return readable(peer.socket.get(), milliseconds(0)); }, victim));
        wire::Packet answer{};
        Received got =
            receive_packet(peer.socket.get(), std::as_writable_bytes(std::span(&answer, 1)));
        ASSERT_EQ(got.status, SocketStatus::ok);
        EXPECT_EQ(got.descriptors, 0u);
        EXPECT_EQ(answer.type, 4u);
        EXPECT_EQ(answer.value, region);
        EXPECT_EQ(answer.extra, 0u);
    }
    EXPECT_TRUE(alive(peer.connection));
    // Who asks without ever listening is not remembered for ever.
    for (unsigned i = 0; i < 5000 && alive(peer.connection); ++i) {
        for (unsigned n = 0; n < 50; ++n) {
            (void)peer.packet({3, 0, random.wide(), 0});
        }
    }
    EXPECT_EQ(end_of(peer.connection), Reason::protocol_error);
}

TEST_F(Hostile, OnlyWhatIsGrantedIsHandedOut) {
    const SharedMemory memory = create_shared_memory("comch-test", 8192).value();
    const std::vector<std::byte> heap(64);
    const auto add = [&](std::uint32_t access, int memfd) {
        return RegionTable::instance()
            .add({.base = memory.mapping.data(), .length = 8192, .access = access, .memfd = memfd})
            .value();
    };
    const std::array<RegionKey, 4> keys{
        add(access_remote_all, memory.fd.get()), add(access_remote_read, memory.fd.get()),
        add(access_remote_write, memory.fd.get()), add(access_remote_all, -1)};
    RawPeer peer(domain);
    peer.join(victim);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        ASSERT_TRUE(peer.packet({3, 0, keys[i].region, 0}));
        ASSERT_TRUE(until([&] { return readable(peer.socket.get(), milliseconds(0)); }, victim));
        wire::Packet answer{};
        Received got =
            receive_packet(peer.socket.get(), std::as_writable_bytes(std::span(&answer, 1)));
        ASSERT_EQ(got.status, SocketStatus::ok);
        EXPECT_EQ(got.descriptors, i < 2 ? 1u : 0u) << i;
        if (i < 2) {
            EXPECT_EQ(map_shared_memory(got.fd[0].get(), 8192, true).has_value(), i == 0);
            EXPECT_TRUE(map_shared_memory(got.fd[0].get(), 8192, false).has_value());
        }
    }
    for (const RegionKey& key : keys) {
        RegionTable::instance().remove(key.region);
    }
}

TEST_F(Hostile, AFloodOfDoorbellsHoldsNobodyUp) {
    RawPeer peer(domain);
    peer.join(victim);
    for (unsigned round = 0; round < 50; ++round) {
        while (peer.packet({1, 0, 0, 0})) {
        }
        check_the_friend();
    }
    EXPECT_TRUE(alive(peer.connection));
}

// ---- the ring ----------------------------------------------------------------------------------

TEST_F(Hostile, RecordsThatNobodySendsEndTheConnection) {
    struct Case {
        const char* what;
        std::uint8_t kind;
        std::uint32_t length;
    };
    for (const Case& c : {Case{"kind 0", 0, 8},
                          Case{"kind 13", 13, 8},
                          Case{"kind 127", 127, 8},
                          Case{"a stamp on nothing", 0x80, 8},
                          Case{"a stamp that is cut", 0x81, 7},
                          Case{"a stamped pad", 0x83, 16},
                          Case{"a stamped put", 0x85, 64},
                          Case{"a bulk message without a bulk ring", 2, 8},
                          Case{"a cut bulk reference", 2, 7},
                          Case{"a bulk ring that never came", 4, 0},
                          Case{"a cut put", 5, 31},
                          Case{"a cut bulk put", 6, 39},
                          Case{"a cut get", 7, 31},
                          Case{"a long get", 7, 33},
                          Case{"a cut reply", 8, 15},
                          Case{"a reply to nothing", 8, 64},
                          Case{"a bulk reply to nothing", 9, 24},
                          Case{"a cut atomic", 10, 55},
                          Case{"an atomic of size 0", 10, 56},
                          Case{"an atomic reply to nothing", 11, 24},
                          Case{"an error of nothing", 12, 16},
                          Case{"a cut error", 12, 15}}) {
        RawPeer peer(domain);
        peer.join(victim);
        ASSERT_EQ(peer.pipe.put_record(static_cast<Kind>(c.kind), 0, c.length,
                                       [&](std::byte* to) { std::memset(to, 0, c.length); }),
                  Errc::ok);
        EXPECT_EQ(end_of(peer.connection), Reason::protocol_error) << c.what;
        victim.port->close(peer.connection);
    }
    EXPECT_TRUE(victim.seen.messages.empty());
    EXPECT_TRUE(victim.seen.completions.empty());
}

TEST(Order, WhoLiesAboutTheTimeDoesNotKeepOthersWaiting) {
    const Lab lab;
    End victim(lab, Side::dpu, 0, PortOptions{.face = "test", .arrival_order = true});
    End honest(lab, Side::host);
    Connection* const connection =
        honest.port->connect(victim.port->address(), {}, nullptr).value();
    ASSERT_TRUE(until([&] { return !honest.seen.connected.empty(); }, honest, victim));
    RawPeer liar(lab.domain());
    liar.join(victim);
    constexpr auto stamped = static_cast<Kind>(static_cast<unsigned>(Kind::data) | kind_stamped);
    const auto fill_ring = [&] { // as old as can be
        while (liar.pipe.put_record(stamped, 7, sizeof(std::uint64_t), [](std::byte* to) {
            std::memset(to, 0, sizeof(std::uint64_t));
        }) == Errc::ok) {
        }
    };
    fill_ring();
    ASSERT_EQ(connection->send_ordered(1, bytes_of("me, too")), Errc::ok);
    const auto has_come = [&] {
        return std::any_of(victim.seen.messages.begin(), victim.seen.messages.end(),
                           [](const auto& message) { return message.id == 1; });
    };
    unsigned passes = 0;
    while (!has_come() && passes < 100) {
        (void)victim.progress();
        fill_ring();
        ++passes;
    }
    EXPECT_TRUE(has_come());
    EXPECT_LE(passes, 3 * tuning::ring_cells / line_cells / 64); // two rings' messages, 64 a pass
}

TEST_F(Hostile, WhoAsksForMoreThanItMayIsDisconnected) {
    std::vector<std::byte> memory(1 << 20);
    const RegionKey key =
        RegionTable::instance()
            .add({.base = memory.data(), .length = memory.size(), .access = access_remote_read})
            .value();
    RawPeer peer(domain);
    peer.join(victim);
    bool over = false;
    for (unsigned i = 0; i < 10'000 && !over; ++i) { // and takes no answer out
        const OneSided request{key.region, key.base, memory.size(), 1};
        (void)peer.pipe.put_record(Kind::get, 0, sizeof(request), [&](std::byte* to) {
            std::memcpy(to, &request, sizeof(request));
        });
        (void)victim.progress();
        over = !victim.seen.ends.empty();
    }
    EXPECT_EQ(end_of(peer.connection), Reason::protocol_error);
    RegionTable::instance().remove(key.region);
}

TEST_F(Hostile, LiesAboutCreditEndTheConnection) {
    for (const bool bulk : {false, true}) {
        for (const std::uint64_t lie : {std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
            RawPeer peer(domain);
            peer.join(victim);
            Direction::Consumer& consumer = peer.control().direction[1].consumer;
            (bulk ? consumer.bulk : consumer.cells).store(lie);
            const std::vector<std::byte> message(4000);
            for (unsigned i = 0; i < 2000; ++i) {
                (void)peer.connection->send_packed(1, tuning::max_message, [](std::byte* to) {
                    std::memset(to, 1, tuning::max_message);
                    return tuning::max_message;
                });
                (void)peer.connection->send(1, message);
            }
            EXPECT_LE(peer.connection->confirmed(), peer.connection->sent());
            EXPECT_EQ(end_of(peer.connection), Reason::protocol_error);
            EXPECT_NE(peer.connection->send(1, message), Errc::again);
            victim.port->close(peer.connection);
        }
    }
}

TEST_F(Hostile, NoMappingIsLargerThanItsKeySays) {
    constexpr std::uint64_t length = 8192;
    const UniqueFd memfd = test_memfd(1 << 16);
    std::uint64_t number = 0;
    for (const std::uint64_t answered : {length, length + 1, std::uint64_t{1} << 16}) {
        RawPeer peer(domain);
        peer.join(victim);
        RemoteRegion region({.process_id = peer.hello.process_id,
                             .region = ++number,
                             .base = 0x1000'0000,
                             .length = length,
                             .access = access_remote_all,
                             .mappable = 1});
        std::uint64_t word = 0;
        int token = 0;
        ASSERT_EQ(peer.connection->get(&word, sizeof(word), region, region.key().base, &token),
                  Errc::in_progress);
        ASSERT_TRUE(
            peer.packet({static_cast<std::uint32_t>(wire::Type::map_answer), 0, number, answered},
                        std::array<int, 1>{memfd.get()}));
        const auto state = [&] { return region.import()->state(); };
        ASSERT_TRUE(until([&] { return state() != Import::State::requested; }, victim));
        EXPECT_EQ(state(), answered <= length ? Import::State::mapped : Import::State::refused)
            << answered;
        victim.port->close(peer.connection);
    }
}

/// The victim's puts lie in a ring that the peer can write to. It takes none out; the victim takes
/// them back, and its kernel, which may read the memory they are for, does not write it: so they
/// are to be kept until the peer takes them out after all.
class PutsInAScribbledRing : public Hostile {
protected:
    static constexpr std::uint32_t length = tuning::max_message;
    static constexpr unsigned count = 8;

    /// `scribble(head, ref)` changes each record, before anybody has looked at it again.
    template <class Scribble> void run(Scribble scribble) {
        RemoteRegion region({.process_id = 0xabcdef,
                             .region = 1,
                             .base = reinterpret_cast<std::uint64_t>(memory.data()),
                             .length = length,
                             .access = access_remote_all | access_by_kernel});
        peer.join(victim);
        const std::vector<std::byte> data(length);
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(peer.connection->put(data.data(), length, region, region.key().base, &token),
                      Errc::ok);
        }
        unsigned seen = 0;
        std::byte* const ring =
            peer.segment.data() + ring_offset + std::size_t{peer.cells()} * cell_size;
        for (std::uint64_t cell = 0; cell < peer.cells();) {
            std::uint64_t word = 0;
            std::memcpy(&word, ring + cell * cell_size, sizeof(word));
            const Header header = unpack(word);
            if (static_cast<Kind>(header.kind) == Kind::put_bulk) {
                std::byte* const payload = ring + cell * cell_size + sizeof(word);
                OneSided head{};
                BulkRef ref{};
                std::memcpy(&head, payload, sizeof(head));
                std::memcpy(&ref, payload + sizeof(head), sizeof(ref));
                scribble(head, ref);
                std::memcpy(payload, &head, sizeof(head));
                std::memcpy(payload + sizeof(head), &ref, sizeof(ref));
                ++seen;
            }
            cell = link::soft::end_of(cell, header.length);
        }
        ASSERT_EQ(seen, count);
        ASSERT_EQ(peer.connection->flush(&token), Errc::in_progress);
    }

    RawPeer peer{domain};
    Mapping memory{static_cast<std::byte*>(
                       ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
                   length};
    int token = 0;
};

TEST_F(PutsInAScribbledRing, AreKeptAsTheyAre) {
    run([](OneSided&, BulkRef&) {});
    const auto& taken_back = peer.control().direction[1].puts.withdrawn;
    ASSERT_TRUE(until([&] { return taken_back.load() != 0; }, victim));
    EXPECT_TRUE(alive(peer.connection));
}

TEST_F(PutsInAScribbledRing, AreNotLongerThanTheRing) {
    run([](OneSided& head, BulkRef& ref) { // each is all of it
        ref.offset = 0;
        head.length = ref.length = 4 << 20;
    });
    EXPECT_EQ(end_of(peer.connection), Reason::protocol_error);
}

TEST_F(PutsInAScribbledRing, AreWhereTheRingIs) {
    run([](OneSided&, BulkRef& ref) { ref.offset = ~0u; });
    EXPECT_EQ(end_of(peer.connection), Reason::protocol_error);
}

TEST_F(Hostile, ALieAboutConfirmationsCountsForNothing) {
    RawPeer peer(domain);
    peer.join(victim);
    ASSERT_EQ(peer.connection->send(1, bytes_of("m")), Errc::ok);
    peer.control().direction[1].consumer.messages.store(2);
    EXPECT_EQ(peer.connection->confirmed(), 0u);
    peer.control().direction[1].consumer.messages.store(~std::uint64_t{0});
    EXPECT_EQ(peer.connection->confirmed(), 0u);
    peer.control().direction[1].consumer.messages.store(1);
    EXPECT_EQ(peer.connection->confirmed(), 1u);
}

// ---- at random ---------------------------------------------------------------------------------

/// Memory of the victim that peers may reach; what lies around it must stay as it is.
class Reachable {
public:
    Reachable() {
        shared_ = create_shared_memory("comch-test", 16384).value();
        const auto add = [&](std::byte* base, std::size_t size, std::uint32_t access, int fd) {
            keys.push_back(RegionTable::instance()
                               .add({.base = base, .length = size, .access = access, .memfd = fd})
                               .value());
        };
        add(heap_.get(), length, access_remote_all, -1);
        add(other_.get(), length, access_remote_read, -1);
        add(shared_.mapping.data(), 16384, access_remote_all, shared_.fd.get());
    }
    ~Reachable() {
        for (const RegionKey& key : keys) {
            RegionTable::instance().remove(key.region);
        }
    }
    Reachable(const Reachable&) = delete;
    Reachable& operator=(const Reachable&) = delete;

    static constexpr std::size_t length = 5003; ///< odd, with nothing behind it
    std::vector<RegionKey> keys;

private:
    std::unique_ptr<std::byte[]> heap_ = std::make_unique<std::byte[]>(length);
    std::unique_ptr<std::byte[]> other_ = std::make_unique<std::byte[]>(length);
    SharedMemory shared_;
};

/// What a hostile peer does next: anything, with a preference for what looks right.
class Fuzzer {
public:
    Fuzzer(Random& random, const Reachable& reachable) : random_(random), reachable_(reachable) {}

    /// `out`: the direction that the fuzzer writes.
    void step(Pipe& pipe, Mapping& segment, int socket, unsigned out) {
        auto& control = *reinterpret_cast<SegmentControl*>(segment.data());
        Direction& ours = control.direction[out];
        Direction& theirs = control.direction[1 - out];
        std::byte* const ring =
            segment.data() + ring_offset + std::size_t{out} * tuning::ring_cells * cell_size;
        switch (random_.below(12)) {
        case 0: { // a word anywhere in the ring
            store(ring + 8 * random_.below(tuning::ring_cells * 4), random_.wide());
            break;
        }
        case 1: { // a header where the victim looks, or nearly
            const std::uint64_t position = pipe.tx().head() + random_.below(3);
            const Header header{tag_at(position, 9),
                                static_cast<std::uint16_t>(
                                    (random_.below(3) == 0 ? random_() : random_.below(200)) |
                                    (random_.below(2) == 0 ? fills_line : 0)),
                                static_cast<std::uint8_t>(random_()), kind()};
            store(ring + (position % tuning::ring_cells) * cell_size, pack(header));
            break;
        }
        case 2: // the credits, near what is right or far
            (random_.below(2) == 0 ? theirs.consumer.cells : theirs.consumer.bulk)
                .store(random_.below(4) == 0 ? random_.wide() : random_.below(2000),
                       std::memory_order_relaxed);
            break;
        case 3:
            theirs.consumer.messages.store(random_.wide(), std::memory_order_relaxed);
            (random_.below(2) == 0   ? ours.puts.withdrawn
             : random_.below(2) == 0 ? theirs.puts.begun
                                     : theirs.puts.executed)
                .store(random_.below(4) == 0 ? random_.wide() : random_.below(2000),
                       std::memory_order_relaxed);
            (random_.below(2) == 0 ? ours.joint[random_.below(2)].claims
                                   : theirs.joint[random_.below(2)].done)
                .store(random_.below(4) == 0 ? random_.wide() : random_.below(3),
                       std::memory_order_relaxed);
            break;
        case 4:
            ours.producer.wants_credit.store(random_(), std::memory_order_relaxed);
            theirs.doorbell.armed.store(random_(), std::memory_order_relaxed);
            break;
        case 5:
            if (random_.below(20) == 0) {
                ours.producer.closed.store(random_(), std::memory_order_relaxed);
            }
            break;
        case 6: // a packet
            if (random_.below(8) == 0) {
                send_packet(socket);
            }
            break;
        case 7: // taken out as a correct peer would
            for (unsigned n = random_.below(8); n != 0; --n) {
                RingReader::Record record;
                if (pipe.rx().peek(record) != RingReader::Peek::record) {
                    (void)pipe.rx().return_rest();
                    break;
                }
                if (record.header.length >= sizeof(OneSided)) { // for the name of an operation
                    std::memcpy(&last_, record.payload, sizeof(last_));
                }
                pipe.rx().pop(record);
            }
            break;
        default: // a record in its place
            send_record(pipe);
            break;
        }
        if (random_.below(64) == 0 && bulk_.data() != nullptr) {
            store(bulk_.data() + 8 * random_.below(static_cast<std::uint32_t>(bulk_.size()) / 8),
                  random_.wide());
        }
    }
    void attach_bulk(int socket) {
        bulk_fd_ = test_memfd(1 << 16);
        bulk_ = map_shared_memory(bulk_fd_.get(), 1 << 16, true).value();
        const std::array<int, 1> fds{bulk_fd_.get()};
        (void)send_raw(socket, raw(wire::Packet{2, 0, 1 << 16, 0}), fds);
    }

private:
    /// As an atomic, since the victim may be looking.
    static void store(std::byte* at, std::uint64_t word) {
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at))
            .store(word, std::memory_order_relaxed);
    }
    std::uint8_t kind() {
        const std::uint32_t k = random_.below(16);
        return static_cast<std::uint8_t>(
            random_.below(6) == 0 ? random_() : k | (random_.below(4) == 0 ? 128 : 0));
    }
    OneSided one_sided() {
        const RegionKey& key =
            reachable_.keys[random_.below(static_cast<std::uint32_t>(reachable_.keys.size()))];
        OneSided request{key.region, key.base, 8, random_.below(3)};
        switch (random_.below(4)) {
        case 0:
            request.length = random_.below(6000);
            break;
        case 1:
            request.length = random_.wide();
            break;
        default:
            break;
        }
        switch (random_.below(8)) {
        case 0:
            request.address += random_.below(6000) - 500ull;
            break;
        case 1:
            request.address = random_.wide();
            break;
        case 2:
            request.address += 8 * random_.below(600);
            break;
        case 3:
            request.region = random_.wide();
            break;
        default:
            break;
        }
        return request;
    }
    void send_record(Pipe& pipe) {
        const std::uint8_t record_kind = kind();
        std::array<std::byte, 2048> payload{};
        std::uint32_t length = 0;
        const auto add = [&](const auto& value) {
            std::memcpy(payload.data() + length, &value, sizeof(value));
            length += static_cast<std::uint32_t>(sizeof(value));
        };
        if ((record_kind & kind_stamped) != 0) {
            add(random_.wide());
        }
        const BulkRef ref{random_.below(3) == 0 ? random_() : random_.below(1024) * 64,
                          random_.below(3) == 0 ? random_() : random_.below(4000)};
        const Reply reply{random_.below(2) == 0
                              ? last_.op
                              : 1 + random_.below(3) + (std::uint64_t{random_.below(5)} << 32),
                          random_.below(3) == 0 ? random_.wide() : 0};
        switch (static_cast<Kind>(record_kind & 0x7f)) {
        case Kind::data_bulk:
            add(ref);
            break;
        case Kind::put: {
            OneSided request = one_sided();
            const std::uint32_t size = random_.below(1000);
            if (random_.below(4) != 0) {
                request.length = size;
            }
            add(request);
            length += size;
            break;
        }
        case Kind::put_bulk: {
            OneSided request = one_sided();
            request.length = random_.below(4) != 0 ? ref.length : request.length;
            add(request);
            add(ref);
            break;
        }
        case Kind::get:
            add(one_sided());
            break;
        case Kind::joint_get: // the victim is to write into this very process
            add(one_sided());
            add(Joint{random_.below(4) == 0 ? 64 : reinterpret_cast<std::uint64_t>(written_.get()),
                      random_.below(8) == 0
                          ? random_.wide()
                          : JointName{static_cast<std::uint16_t>(random_.below(3)),
                                      random_.below(2) == 0, random_.below(2)}
                                .pack(),
                      random_.below(2) == 0 ? 0 : random_.wide(),
                      random_.below(2) == 0 ? reinterpret_cast<std::uint64_t>(written_.get())
                                            : random_.wide(),
                      random_.wide()});
            break;
        case Kind::atomic: {
            OneSided request = one_sided();
            Atomic atomic{random_.wide(),
                          random_.wide(),
                          static_cast<std::uint8_t>(random_.below(8)),
                          static_cast<std::uint8_t>(
                              random_.below(4) == 0 ? random_() : 4 * (1 + random_.below(2))),
                          {}};
            request.length = random_.below(8) == 0 ? request.length : atomic.size;
            add(request);
            add(atomic);
            break;
        }
        case Kind::get_reply:
            add(reply);
            length += random_.below(1500);
            break;
        case Kind::get_reply_bulk:
            add(reply);
            add(ref);
            break;
        case Kind::atomic_reply:
            add(reply);
            add(random_.wide());
            break;
        case Kind::error_reply:
            add(reply);
            break;
        default:
            length += random_.below(300);
            break;
        }
        if (random_.below(20) == 0) {
            length = random_.below(length + 1);
        }
        (void)pipe.put_record(static_cast<Kind>(record_kind), static_cast<std::uint8_t>(random_()),
                              length,
                              [&](std::byte* to) { std::memcpy(to, payload.data(), length); });
    }
    void send_packet(int socket) {
        const RegionKey& key =
            reachable_.keys[random_.below(static_cast<std::uint32_t>(reachable_.keys.size()))];
        wire::Packet packet{random_.below(7), random_.below(3),
                            random_.below(2) == 0 ? key.region : random_.wide(),
                            random_.below(2) == 0 ? random_.below(20'000) : random_.wide()};
        const UniqueFd memfd =
            test_memfd(8192, random_.below(2) == 0 ? F_SEAL_SHRINK | F_SEAL_SEAL : 0);
        const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
        const std::array<int, 3> all{memfd.get(), event.get(), memfd.get()};
        (void)send_raw(socket, raw(packet), std::span(all).first(random_.below(4)));
    }

    Random& random_;
    const Reachable& reachable_;
    OneSided last_{};
    UniqueFd bulk_fd_;
    std::unique_ptr<std::byte[]> written_ = std::make_unique<std::byte[]>(1 << 16);
    Mapping bulk_;
};

/// What the victim itself does meanwhile.
void use(Connection& c, Random& random, std::vector<std::byte>& buffer, RemoteRegion& region) {
    static int token;
    switch (random.below(10)) {
    case 0:
        (void)c.send(1, {buffer.data(), random.below(tuning::max_inline)});
        break;
    case 1:
        (void)c.send_packed(1, tuning::max_message, [&](std::byte* to) {
            const std::uint32_t length = random.below(tuning::max_message);
            std::memset(to, 5, length);
            return length;
        });
        break;
    case 2:
        (void)c.send_ordered(1, {buffer.data(), random.below(8000)});
        break;
    case 3:
        (void)c.put(buffer.data(), random.below(4000), region, region.key().base, &token);
        break;
    case 4:
        (void)c.get(buffer.data(), random.below(4000), region, region.key().base, &token);
        break;
    case 5:
        (void)c.atomic({AtomicOp::add, static_cast<std::uint8_t>(random.below(2) == 0 ? 4 : 8), 1,
                        0, buffer.data()},
                       region, region.key().base, &token);
        break;
    case 6:
        (void)c.flush(&token);
        break;
    case 7:
        if (random.below(10) == 0) {
            (void)c.fence();
        }
        break;
    case 8:
        (void)c.confirmed();
        (void)c.check();
        break;
    case 9:
        if (random.below(20) == 0) {
            c.cancel([](void*, Errc) {});
        }
        break;
    }
}

/// The key of memory that the hostile peer claims to have.
RegionKey claimed_region(Random& random, std::uint64_t owner) {
    static std::uint64_t number = 1000;
    return {.process_id = owner,
            .region = ++number,
            .base = random.below(4) == 0 ? random.wide() & ~std::uint64_t{7} : 0x1000'0000,
            .length = random.below(2) == 0 ? std::uint64_t{1} << 40 : 8192,
            .access = access_remote_all,
            .mappable = 1};
}

TEST_F(Hostile, AnInitiatorThatDoesAnythingDoesNoHarm) {
    const Reachable reachable;
    unsigned survived = 0;
    for (std::uint32_t seed = 1; seed <= 150; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        Random random(seed);
        Fuzzer fuzzer(random, reachable);
        RawPeer peer(domain);
        peer.hello.one_way = random.below(2) == 0 ? 1 : 0;
        peer.join(victim);
        if (::testing::Test::HasFatalFailure()) {
            return;
        }
        if (random.below(2) == 0) {
            fuzzer.attach_bulk(peer.socket.get());
        }
        RemoteRegion region(claimed_region(random, peer.hello.process_id));
        std::vector<std::byte> buffer(tuning::max_message);
        const std::size_t ends = victim.seen.ends.size();
        unsigned steps = 0;
        for (; steps < 400 && victim.seen.ends.size() == ends; ++steps) {
            for (unsigned n = random.below(4); n != 0; --n) {
                fuzzer.step(peer.pipe, peer.segment, peer.socket.get(), 0);
            }
            for (unsigned n = random.below(3); n != 0; --n) {
                use(*peer.connection, random, buffer, region);
            }
            if (random.below(16) == 0) {
                (void)victim.port->arm(random.below(2) == 0);
            }
            for (unsigned n = random.below(20); n != 0; --n) {
                (void)victim.progress();
            }
        }
        survived += steps == 400 ? 1 : 0;
        ASSERT_LE(victim.seen.ends.size(), ends + 1);
        if (victim.seen.ends.size() > ends) {
            EXPECT_TRUE(victim.seen.ends.back().reason == Reason::protocol_error ||
                        victim.seen.ends.back().reason == Reason::peer_died ||
                        victim.seen.ends.back().reason == Reason::closed);
        }
        victim.port->close(peer.connection);
        victim.seen.channels.clear();
        victim.seen.messages.clear();
        victim.seen.completions.clear();
        check_the_friend();
        if (::testing::Test::HasFailure()) {
            return;
        }
    }
    EXPECT_LT(survived, 150u);
}

TEST_F(Hostile, AnArrivalOrderPortIsNoEasierToHarm) {
    End ordered(lab, Side::dpu, 0, {.face = "test", .arrival_order = true});
    const Reachable reachable;
    for (std::uint32_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        Random random(seed);
        Fuzzer fuzzer(random, reachable);
        RawPeer peer(domain);
        peer.join(ordered);
        if (::testing::Test::HasFatalFailure()) {
            return;
        }
        fuzzer.attach_bulk(peer.socket.get());
        const std::size_t ends = ordered.seen.ends.size();
        for (unsigned steps = 0; steps < 300 && ordered.seen.ends.size() == ends; ++steps) {
            fuzzer.step(peer.pipe, peer.segment, peer.socket.get(), 0);
            (void)ordered.progress();
        }
        if (random.below(2) == 0) { // gone, with whatever it left
            peer.socket.reset();
            for (unsigned n = 0; n < 200; ++n) {
                (void)ordered.progress();
            }
        }
        ASSERT_LE(ordered.seen.ends.size(), ends + 1);
        ordered.port->close(peer.connection);
        ordered.seen.channels.clear();
        ordered.seen.messages.clear();
    }
    End other(lab, Side::host);
    const Connected pair = connect(other, ordered);
    ASSERT_EQ(pair.initiator->send_ordered(1, bytes_of("fine")), Errc::ok);
    EXPECT_TRUE(until([&] { return ordered.seen.messages.size() == 1; }, other, ordered));
}

TEST_F(Hostile, AnAcceptorThatDoesAnythingDoesNoHarm) {
    const Reachable reachable;
    for (std::uint32_t seed = 1; seed <= 100; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        Random random(seed);
        Fuzzer fuzzer(random, reachable);
        RawListener listener(domain, 1'000'000 + seed);
        auto started = victim.port->connect(listener.address, {}, nullptr);
        ASSERT_TRUE(started.has_value()) << started.error().message;
        ASSERT_TRUE(listener.accept());
        // Scribbles before it has accepted; most then accept.
        for (unsigned n = random.below(4); n != 0; --n) {
            fuzzer.step(listener.pipe, listener.segment, -1, 1);
        }
        (void)victim.progress();
        EXPECT_TRUE(victim.seen.messages.empty()) << "nobody has accepted yet";
        const UniqueFd process = own_process();
        if (random.below(8) != 0) {
            const wire::Answer answer = RawListener::good_answer();
            const std::array<int, 1> fds{process.get()};
            (void)listener.say(raw(answer), fds);
        }
        RemoteRegion region(claimed_region(random, RawListener::good_answer().process_id));
        std::vector<std::byte> buffer(tuning::max_message);
        const std::size_t ends = victim.seen.ends.size();
        for (unsigned steps = 0; steps < 300 && victim.seen.ends.size() == ends; ++steps) {
            fuzzer.step(listener.pipe, listener.segment, listener.peer.get(), 1);
            for (unsigned n = random.below(3); n != 0; --n) {
                use(**started, random, buffer, region);
            }
            for (unsigned n = random.below(20); n != 0; --n) {
                (void)victim.progress();
            }
        }
        ASSERT_LE(victim.seen.ends.size(), ends + 1);
        victim.port->close(*started);
        victim.seen.channels.clear();
        victim.seen.messages.clear();
        check_the_friend();
        if (::testing::Test::HasFailure()) {
            return;
        }
    }
}

TEST_F(Hostile, AChannelsPeerThatDoesAnythingDoesNoHarm) {
    const Reachable reachable;
    unsigned failed = 0;
    for (std::uint32_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        Random random(seed);
        Fuzzer fuzzer(random, reachable);
        RawPeer peer(domain);
        peer.join(victim);
        RawPeer under(domain); // its segment is the channel's
        int pair[2] = {-1, -1};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
        const UniqueFd ours(pair[0]);
        {
            const UniqueFd theirs(pair[1]);
            const std::array<int, 2> fds{under.memfd.get(), theirs.get()};
            ASSERT_TRUE(peer.packet({5, 0, 77, 0}, fds));
        }
        under.pipe.attach(ours.get(), &under.slot, true);
        under.pipe.set_socket_ready(true);
        ASSERT_TRUE(until([&] { return !victim.seen.channels.empty(); }, victim));
        Channel channel = std::move(victim.seen.channels[0].second);
        victim.seen.channels.clear();
        if (random.below(2) == 0) {
            fuzzer.attach_bulk(ours.get());
        }
        std::vector<std::byte> got(65536);
        Errc state = Errc::ok;
        for (unsigned steps = 0; steps < 400 && state == Errc::ok; ++steps) {
            fuzzer.step(under.pipe, under.segment, ours.get(), 0);
            (void)channel.poll(
                [&](std::uint8_t, const std::byte* data, std::uint32_t length) {
                    std::memcpy(got.data(), data, std::min<std::size_t>(length, got.size()));
                    return random.below(4) != 0;
                },
                random.below(8));
            (void)channel.send(1, {got.data(), random.below(4000)});
            (void)channel.send_packed(1, 20'000, [](std::byte* to) {
                std::memset(to, 1, 20'000);
                return 20'000u;
            });
            (void)channel.confirmed();
            if (random.below(8) == 0) {
                (void)channel.arm();
            }
            state = channel.check();
        }
        failed += state == Errc::connection_reset ? 1 : 0;
        EXPECT_TRUE(alive(peer.connection)) << "the connection is not the channel";
        victim.port->close(peer.connection);
    }
    EXPECT_GT(failed, 0u);
}

#ifndef COMCH_SANITIZE_THREAD // what is not copied at once races, by intent, with who scribbles
TEST_F(Hostile, ScribblingWhileTheVictimReadsDoesNoHarm) {
    const Reachable reachable;
    for (std::uint32_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        RawPeer peer(domain);
        peer.join(victim);
        Random random(seed);
        RemoteRegion region(claimed_region(random, peer.hello.process_id));
        std::vector<std::byte> buffer(tuning::max_message);
        std::atomic<bool> stop{false};
        std::thread scribbler([&] {
            Random noise(seed + 1000);
            Fuzzer fuzzer(noise, reachable);
            fuzzer.attach_bulk(peer.socket.get());
            while (!stop) {
                fuzzer.step(peer.pipe, peer.segment, peer.socket.get(), 0);
            }
        });
        const std::size_t ends = victim.seen.ends.size();
        const auto deadline = std::chrono::steady_clock::now() + milliseconds(100);
        while (victim.seen.ends.size() == ends && std::chrono::steady_clock::now() < deadline) {
            use(*peer.connection, random, buffer, region);
            (void)victim.progress();
        }
        stop = true;
        scribbler.join();
        victim.port->close(peer.connection);
        victim.seen.channels.clear();
        victim.seen.messages.clear();
        check_the_friend();
        if (::testing::Test::HasFailure()) {
            return;
        }
    }
}
#endif

// ---- answers -----------------------------------------------------------------------------------

TEST_F(Hostile, AnAnswerThatIsNoneEndsTheAttempt) {
    std::uint64_t number = 2'000'000;
    const UniqueFd process = own_process();
    const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    const auto expect = [&](Reason reason, const char* what, auto change,
                            std::vector<int> descriptors) {
        RawListener listener(domain, ++number);
        auto started = victim.port->connect(listener.address, {}, nullptr);
        ASSERT_TRUE(started.has_value());
        EXPECT_EQ((*started)->send(1, bytes_of("early")), Errc::ok);
        ASSERT_TRUE(listener.accept());
        wire::Answer answer = RawListener::good_answer();
        std::vector<std::byte> bytes(sizeof(answer));
        std::size_t length = bytes.size();
        change(answer, length);
        bytes.resize(std::max(length, bytes.size()));
        std::memcpy(bytes.data(), &answer, sizeof(answer));
        ASSERT_TRUE(listener.say(std::span(bytes).first(length), descriptors));
        EXPECT_EQ(end_of(*started), reason) << what;
        EXPECT_FALSE((*started)->error_text().empty()) << what;
        victim.port->close(*started);
    };
    using Answer = wire::Answer;
    const int fd = process.get();
    expect(Reason::protocol_error, "garbage", [](Answer& a, std::size_t&) { a.magic = 7; }, {fd});
    expect(Reason::protocol_error, "cut", [](Answer&, std::size_t& n) { n = 15; }, {fd});
    expect(Reason::version_mismatch, "cut", [](Answer&, std::size_t& n) { n = 100; }, {fd});
    expect(Reason::version_mismatch, "version",
           [](Answer& a, std::size_t&) { a.version = protocol_version + 1; }, {fd});
    expect(Reason::version_mismatch, "a longer version",
           [](Answer& a, std::size_t& n) {
               a.version = protocol_version + 1;
               n += 1000;
           },
           {});
    expect(Reason::version_mismatch, "size", [](Answer& a, std::size_t&) { a.size = 9; }, {fd});
    expect(Reason::protocol_error, "code", [](Answer& a, std::size_t&) { a.code = 100; }, {fd});
    expect(Reason::protocol_error, "code", [](Answer& a, std::size_t&) { a.code = -1; }, {fd});
    expect(Reason::protocol_error, "side", [](Answer& a, std::size_t&) { a.side = 2; }, {fd});
    expect(Reason::protocol_error, "private",
           [](Answer& a, std::size_t&) { a.private_length = 257; }, {fd});
    expect(Reason::protocol_error, "nobody", [](Answer& a, std::size_t&) { a.process_id = 0; },
           {fd});
    expect(Reason::protocol_error, "no process", [](Answer&, std::size_t&) {}, {});
    expect(Reason::protocol_error, "no process", [](Answer&, std::size_t&) {}, {event.get()});
    expect(Reason::protocol_error, "three", [](Answer&, std::size_t&) {}, {fd, fd, fd});
    expect(Reason::rejected, "refused",
           [](Answer& a, std::size_t&) { a.code = static_cast<std::int8_t>(Errc::no_memory); }, {});
    expect(Reason::not_found, "not found",
           [](Answer& a, std::size_t&) { a.code = static_cast<std::int8_t>(Errc::not_found); }, {});
    EXPECT_TRUE(victim.seen.connected.empty());
    {
        RawListener listener(domain, ++number);
        auto started = victim.port->connect(listener.address, {}, nullptr);
        ASSERT_TRUE(started.has_value());
        ASSERT_TRUE(listener.accept());
        listener.peer.reset();
        EXPECT_EQ(end_of(*started), Reason::peer_died) << "closed without an answer";
        victim.port->close(*started);
    }
}

// ---- other users -------------------------------------------------------------------------------

TEST_F(Hostile, AnotherUserGetsNowhere) {
    if (::geteuid() != 0) {
        return; // only root can become somebody else
    }
    constexpr uid_t nobody = 65534;
    const std::string path = domain->path();
    const std::string entry = port_entry(victim.port->address());
    const auto as_nobody = [&](auto body) {
        Process process([&] {
            ASSERT_EQ(::setgid(nobody), 0);
            ASSERT_EQ(::setuid(nobody), 0);
            body();
        });
        EXPECT_TRUE(until([&] { return process.ended(); }, victim));
        EXPECT_EQ(process.wait(), 0);
    };
    const auto dial = [&](int socket) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string name = path + "/" + entry;
        if (name.size() >= sizeof(address.sun_path)) {
            return ENAMETOOLONG;
        }
        std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
        return ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0
                   ? 0
                   : errno;
    };
    as_nobody([&] { // the directory is closed to others
        const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        EXPECT_EQ(dial(socket.get()), EACCES);
        EXPECT_FALSE(Domain::open({.directory = path, .description_file = {}}).has_value());
    });
    // Even if it were not:
    const std::string parent = path.substr(0, path.rfind('/'));
    ASSERT_EQ(::chmod(parent.c_str(), 0755), 0);
    ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
    ASSERT_EQ(::chmod((path + "/" + entry).c_str(), 0777), 0);
    const std::size_t asked = victim.seen.peers.size();
    as_nobody([&] {
        RawPeer peer(domain);
        peer.socket.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        ASSERT_EQ(dial(peer.socket.get()), 0);
        (void)peer.say_hello();
        ASSERT_TRUE(readable(peer.socket.get()));
        const auto answer = peer.answer();
        ASSERT_TRUE(answer.has_value());
        EXPECT_EQ(static_cast<Errc>(answer->code), Errc::not_permitted);
    });
    EXPECT_EQ(victim.seen.peers.size(), asked);
}

} // namespace
} // namespace comch::link::soft::test
