#include "perftest/protocol.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "perftest/values.hpp"

namespace comch::perftest::protocol {
namespace {

// ---- layout: little-endian, fixed width; arrays and text follow the struct ----------------------

static_assert(std::endian::native == std::endian::little,
              "the layout is little-endian; a big-endian port needs conversions here");

inline constexpr std::uint32_t magic = 0x31545043; // "CPT1": its first byte is not data_mark
static_assert(std::byte{magic & 0xff} != data_mark);

enum class Type : std::uint16_t {
    hello = 1,
    welcome = 2,
    round = 3,
    ready = 4,
    end = 5,
    outcome = 6,
    failure = 7, // never changes, so that a refusal can be read whatever the version
};

struct Header {
    std::uint32_t magic = protocol::magic;
    std::uint16_t version = protocol::version;
    std::uint16_t type = 0;
    std::uint32_t length = 0; ///< of the whole message
    std::uint32_t count = 0;  ///< elements of the array behind the struct
};
static_assert(sizeof(Header) == 16);

struct HelloWire {
    std::uint8_t path = 0;
    std::uint8_t mode = 0;
    std::uint8_t verify = 0;
    std::uint8_t sleep = 0;
    std::uint32_t threads = 0;
    std::uint32_t timeout_ms = 0;
};
static_assert(sizeof(HelloWire) == 12); // then count CPUs of 32 bits

struct WelcomeWire {
    std::uint64_t pid = 0;
};
static_assert(sizeof(WelcomeWire) == 8);

struct RoundWire {
    std::uint64_t size = 0;
    std::uint32_t window = 0;
    std::uint32_t posted = 0;
    std::uint32_t buffers = 0;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(RoundWire) == 24); // then count consumers of 32 bits

struct OutcomeWire {
    std::uint64_t received = 0;
    std::uint64_t wrong = 0;
    std::uint32_t text_length = 0;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(OutcomeWire) == 24); // then count numbers of 64 bits, then the text

struct Nothing {};

// ---- writing and reading ------------------------------------------------------------------------

class Writer {
public:
    explicit Writer(Type type, std::size_t count = 0) {
        header_.type = static_cast<std::uint16_t>(type);
        header_.count = static_cast<std::uint32_t>(count);
        append(&header_, sizeof(header_));
    }
    template <class T> void add(const T& value) {
        static_assert(std::is_trivially_copyable_v<T> &&
                      std::has_unique_object_representations_v<T>);
        append(&value, sizeof(value));
    }
    template <class T> void add_all(const std::vector<T>& values) {
        append(values.data(), values.size() * sizeof(T));
    }
    void add_text(std::string_view text) { append(text.data(), text.size()); }

    [[nodiscard]] std::vector<std::byte> take() {
        header_.length = static_cast<std::uint32_t>(bytes_.size());
        std::memcpy(bytes_.data(), &header_, sizeof(header_));
        return std::move(bytes_);
    }

private:
    void append(const void* data, std::size_t size) {
        const auto* first = static_cast<const std::byte*>(data);
        bytes_.insert(bytes_.end(), first, first + size);
    }

    Header header_;
    std::vector<std::byte> bytes_;
};

tl::unexpected<Error> malformed(std::string_view what) {
    return fail(Errc::invalid_argument,
                fmt::format("the other side does not speak comch_perftest's protocol: {}", what));
}

class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <class T> [[nodiscard]] bool get(T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (bytes_.size() < sizeof(T)) {
            return false;
        }
        std::memcpy(&value, bytes_.data(), sizeof(T));
        bytes_ = bytes_.subspan(sizeof(T));
        return true;
    }
    template <class T> [[nodiscard]] bool get_all(std::vector<T>& values, std::size_t count) {
        if (count > bytes_.size() / sizeof(T)) {
            return false;
        }
        values.resize(count);
        if (count != 0) {
            std::memcpy(values.data(), bytes_.data(), count * sizeof(T));
        }
        bytes_ = bytes_.subspan(count * sizeof(T));
        return true;
    }
    [[nodiscard]] bool get_text(std::string& text, std::size_t length) {
        if (length > bytes_.size() || length > max_text) {
            return false;
        }
        text.clear();
        for (const std::byte b : bytes_.first(length)) {
            // It ends up on a terminal.
            const auto c = static_cast<unsigned char>(b);
            text.push_back(c < 0x20 || c == 0x7f ? '?' : static_cast<char>(c));
        }
        bytes_ = bytes_.subspan(length);
        return true;
    }
    [[nodiscard]] std::size_t left() const noexcept { return bytes_.size(); }
    [[nodiscard]] bool at_end() const noexcept { return bytes_.empty(); }

private:
    std::span<const std::byte> bytes_;
};

std::string_view cut(const std::string& text) {
    return std::string_view(text).substr(0, max_text);
}

struct Encoder {
    std::vector<std::byte> operator()(const Hello& m) const {
        Writer out(Type::hello, m.cpus.size());
        out.add(HelloWire{.path = static_cast<std::uint8_t>(m.plan.path),
                          .mode = static_cast<std::uint8_t>(m.plan.mode),
                          .verify = m.plan.verify,
                          .sleep = m.plan.sleep,
                          .threads = m.plan.threads,
                          .timeout_ms = m.timeout_ms});
        out.add_all(m.cpus);
        return out.take();
    }
    std::vector<std::byte> operator()(const Welcome& m) const {
        Writer out(Type::welcome);
        out.add(WelcomeWire{.pid = m.pid});
        return out.take();
    }
    std::vector<std::byte> operator()(const Round& m) const {
        Writer out(Type::round, m.consumers.size());
        out.add(RoundWire{.size = m.load.size,
                          .window = m.load.window,
                          .posted = m.load.posted,
                          .buffers = m.load.buffers,
                          .reserved = 0});
        out.add_all(m.consumers);
        return out.take();
    }
    std::vector<std::byte> operator()(const Ready& m) const {
        Writer out(Type::ready, m.consumers.size());
        out.add_all(m.consumers);
        return out.take();
    }
    std::vector<std::byte> operator()(const End& m) const {
        Writer out(Type::end, m.sent.size());
        out.add_all(m.sent);
        return out.take();
    }
    std::vector<std::byte> operator()(const Outcome& m) const {
        Writer out(Type::outcome, m.sent.size());
        const std::string_view text = cut(m.first_wrong);
        out.add(OutcomeWire{.received = m.received,
                            .wrong = m.wrong,
                            .text_length = static_cast<std::uint32_t>(text.size()),
                            .reserved = 0});
        out.add_all(m.sent);
        out.add_text(text);
        return out.take();
    }
    std::vector<std::byte> operator()(const Failure& m) const {
        const std::string_view text = cut(m.text);
        Writer out(Type::failure, text.size());
        out.add_text(text);
        return out.take();
    }
};

Result<Message> decode_hello(Reader in, const Header& header) {
    HelloWire wire;
    Hello m;
    if (header.count > max_cpus || !in.get(wire) || !in.get_all(m.cpus, header.count) ||
        !in.at_end()) {
        return malformed("its Hello has another length than it says");
    }
    if (wire.path < 1 || wire.path > 2 || wire.mode < 1 || wire.mode > 3 || wire.verify > 1 ||
        wire.sleep > 1 || wire.threads < 1 || wire.threads > max_threads || wire.timeout_ms == 0) {
        return malformed("its Hello asks for what does not exist");
    }
    for (const std::uint32_t cpu : m.cpus) {
        if (cpu > max_cpu) {
            return malformed("its Hello names a CPU that cannot be");
        }
    }
    m.plan = {.path = static_cast<Path>(wire.path),
              .mode = static_cast<Mode>(wire.mode),
              .verify = wire.verify != 0,
              .sleep = wire.sleep != 0,
              .threads = wire.threads};
    if (m.plan.path == Path::control && m.plan.threads != 1) {
        return malformed("its Hello asks for several threads on the control path");
    }
    m.timeout_ms = wire.timeout_ms;
    return m;
}

Result<Message> decode_welcome(Reader in, const Header& header) {
    WelcomeWire wire;
    if (header.count != 0 || !in.get(wire) || !in.at_end()) {
        return malformed("its Welcome has another length than it says");
    }
    return Welcome{.pid = wire.pid};
}

Result<Message> decode_round(Reader in, const Header& header) {
    RoundWire wire;
    Round m;
    if (header.count > max_threads || !in.get(wire) || !in.get_all(m.consumers, header.count) ||
        !in.at_end()) {
        return malformed("its Round has another length than it says");
    }
    if (wire.size < 1 || wire.size > limits::fast_path_buffer_size || wire.window < 1 ||
        wire.window > max_window || wire.posted < 1 || wire.posted > limits::consumer_tasks ||
        wire.buffers < 1 || wire.buffers > wire.posted || wire.reserved != 0) {
        return malformed("its Round asks for what the device cannot do");
    }
    m.load = {
        .size = wire.size, .window = wire.window, .posted = wire.posted, .buffers = wire.buffers};
    return m;
}

Result<Message> decode_ready(Reader in, const Header& header) {
    Ready m;
    if (header.count > max_threads || !in.get_all(m.consumers, header.count) || !in.at_end()) {
        return malformed("its Ready has another length than it says");
    }
    return m;
}

Result<Message> decode_end(Reader in, const Header& header) {
    End m;
    if (header.count > max_threads || !in.get_all(m.sent, header.count) || !in.at_end()) {
        return malformed("its End has another length than it says");
    }
    return m;
}

Result<Message> decode_outcome(Reader in, const Header& header) {
    OutcomeWire wire;
    Outcome m;
    if (header.count > max_threads || !in.get(wire) || !in.get_all(m.sent, header.count) ||
        !in.get_text(m.first_wrong, wire.text_length) || !in.at_end() || wire.reserved != 0) {
        return malformed("its Outcome has another length than it says");
    }
    m.received = wire.received;
    m.wrong = wire.wrong;
    return m;
}

Result<Message> decode_failure(Reader in, const Header& header) {
    Failure m;
    if (!in.get_text(m.text, header.count) || !in.at_end()) {
        return malformed("its Failure has another length than it says");
    }
    return m;
}

} // namespace

std::vector<std::byte> encode(const Message& message) {
    return std::visit(Encoder{}, message);
}

Result<Message> decode(std::span<const std::byte> bytes) {
    Reader in(bytes);
    Header header;
    if (!in.get(header) || header.magic != magic) {
        return malformed("a message has no header of it");
    }
    const auto type = static_cast<Type>(header.type);
    if (header.version != version && type != Type::failure) {
        return fail(
            Errc::version_mismatch,
            fmt::format("the other side's comch_perftest speaks version {} of the protocol, "
                        "this one version {}; run the same build of it on both sides",
                        header.version, version));
    }
    if (header.length != bytes.size()) {
        return malformed(
            fmt::format("a message of {} bytes says that it has {}", bytes.size(), header.length));
    }
    switch (type) {
    case Type::hello:
        return decode_hello(in, header);
    case Type::welcome:
        return decode_welcome(in, header);
    case Type::round:
        return decode_round(in, header);
    case Type::ready:
        return decode_ready(in, header);
    case Type::end:
        return decode_end(in, header);
    case Type::outcome:
        return decode_outcome(in, header);
    case Type::failure:
        return decode_failure(in, header);
    }
    return malformed(fmt::format("there is no message of type {}", header.type));
}

} // namespace comch::perftest::protocol
