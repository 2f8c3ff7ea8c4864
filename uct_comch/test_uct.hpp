// What the UCT tests share: a domain of their own, interfaces, endpoints, memory, completions that
// count, and UCX's log.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/test_waiting.hpp"
#include "core/device/test_support.hpp"
#include "ucx_compat.hpp"

namespace comch::uct::test {

inline constexpr std::size_t mib = std::size_t{1024} * 1024;

/// Far more than anything takes; over emulated RDMA devices, too.
inline const auto patience = std::chrono::seconds(comch::test::test_description() ? 180 : 30);

inline std::vector<std::byte> pattern(std::size_t length, std::uint64_t seed) {
    std::vector<std::byte> bytes(length);
    std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (std::byte& b : bytes) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        b = static_cast<std::byte>(state >> 56);
    }
    return bytes;
}

inline void check_ok(ucs_status_t status, const char* what) {
    if (status != UCS_OK) {
        throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
    }
}

/// A domain of its own for a test and its processes, and no settings of whoever runs the tests.
class Lab {
public:
    Lab() {
        for (const std::string& name : ucx_settings()) {
            ::unsetenv(name.c_str());
        }
        ::setenv("COMCH_DOMAIN", path().c_str(), 1);
        if (const auto description = comch::test::test_description()) {
            ::setenv("COMCH_DOMAIN_FILE", description->c_str(), 1);
        }
    }
    [[nodiscard]] std::string path() const { return directory_ / "domain"; }

    /// Names in the domain's directory, without those that belong to the domain itself.
    [[nodiscard]] std::vector<std::string> files() const {
        std::vector<std::string> names;
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(path(), error)) {
            const std::string name = entry.path().filename().string();
            if (!name.starts_with("domain.")) {
                names.push_back(name);
            }
        }
        return names;
    }

private:
    static std::vector<std::string> ucx_settings() {
        std::vector<std::string> names;
        for (char** entry = environ; *entry != nullptr; ++entry) {
            const std::string_view text = *entry;
            if (text.starts_with("UCX_")) {
                names.emplace_back(text.substr(0, text.find('=')));
            }
        }
        return names;
    }

    comch::test::CleanEnvironment clean_;
    comch::test::TempDir directory_;
};

/// Collects what UCX logs, at warning level and above, instead of showing it.
class Log {
public:
    struct Line {
        ucs_log_level_t level;
        std::string text;
    };
    Log() {
        lines().clear();
        ucs_log_push_handler(take);
    }
    ~Log() { ucs_log_pop_handler(); }
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;

    [[nodiscard]] static std::vector<Line>& lines() {
        static std::vector<Line> all;
        return all;
    }
    [[nodiscard]] std::string text() const {
        std::string all;
        for (const Line& line : lines()) {
            all += line.text + "\n";
        }
        return all;
    }
    [[nodiscard]] std::size_t count(ucs_log_level_t level) const {
        return static_cast<std::size_t>(std::count_if(
            lines().begin(), lines().end(), [&](const Line& line) { return line.level == level; }));
    }

private:
    static ucs_log_func_rc_t take(const char*, unsigned, const char*, ucs_log_level_t level,
                                  const ucs_log_component_config_t*, const char* format,
                                  va_list arguments) {
        if (level > UCS_LOG_LEVEL_WARN) {
            return UCS_LOG_FUNC_RC_CONTINUE;
        }
        char text[2048];
        va_list copy;
        va_copy(copy, arguments);
        (void)std::vsnprintf(text, sizeof(text), format, copy);
        va_end(copy);
        lines().push_back({level, text});
        return UCS_LOG_FUNC_RC_STOP;
    }
};

using Settings = std::vector<std::pair<std::string, std::string>>;

inline uct_component_h comch_component() {
    static uct_component_h found = [] {
        uct_component_h* components = nullptr;
        unsigned count = 0;
        check_ok(uct_query_components(&components, &count), "uct_query_components");
        uct_component_h result = nullptr;
        for (unsigned i = 0; i < count; ++i) {
            uct_component_attr_t attr{};
            attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
            check_ok(uct_component_query(components[i], &attr), "uct_component_query");
            if (std::string_view(attr.name) == "comch") {
                result = components[i];
            }
        }
        uct_release_component_list(components);
        return result;
    }();
    if (found == nullptr) {
        throw std::runtime_error("the component is not registered");
    }
    return found;
}

template <class Config> void modify(Config* config, const Settings& settings) {
    for (const auto& [name, value] : settings) {
        check_ok(uct_config_modify(config, name.c_str(), value.c_str()), name.c_str());
    }
}

/// Tries to open a memory domain; null and a status if that fails.
inline std::pair<uct_md_h, ucs_status_t> try_open_md(const Settings& settings) {
    uct_md_config_t* config = nullptr;
    check_ok(uct_md_config_read(comch_component(), nullptr, nullptr, &config), "md config");
    modify(config, settings);
    uct_md_h md = nullptr;
    const ucs_status_t status = uct_md_open(comch_component(), "comch", config, &md);
    uct_config_release(config);
    return {md, status};
}

/// A completion that knows how often it was called.
struct Completion {
    uct_completion_t super{};
    int calls = 0;

    explicit Completion(int count = 1) {
        super.func = [](uct_completion_t* self) { ++reinterpret_cast<Completion*>(self)->calls; };
        super.count = count;
        super.status = UCS_OK;
    }
    [[nodiscard]] bool done() const { return calls > 0; }
    [[nodiscard]] ucs_status_t status() const { return super.status; }
};
static_assert(std::is_standard_layout_v<Completion>);

/// What an interface is opened with besides its settings.
struct Wishes {
    std::optional<std::size_t> rx_headroom{};
    std::optional<std::size_t> am_alignment{};
    std::optional<std::size_t> am_align_offset{};
    ucs_thread_mode_t thread_mode = UCS_THREAD_MODE_SINGLE;
};

/// A worker with one interface. Active messages and failures are remembered, or handled by a hook.
class Interface {
public:
    struct Message {
        std::uint8_t id;
        std::vector<std::byte> bytes;
    };
    struct Failure {
        uct_ep_h ep;
        ucs_status_t status;
    };

    explicit Interface(const std::string& side, const Settings& settings = {},
                       bool with_error_handler = true, const Wishes& wishes = {}) {
        const auto [opened, status] = try_open_md({{"SIDE", side}});
        check_ok(status, "uct_md_open");
        md = opened;
        check_ok(uct_md_query(md, &md_attr), "uct_md_query");
        check_ok(ucs_async_context_create(UCS_ASYNC_MODE_POLL, &async_), "async");
        check_ok(uct_worker_create(async_, wishes.thread_mode, &worker), "uct_worker_create");
        const ucs_status_t result = try_open(settings, with_error_handler, wishes);
        if (result != UCS_OK) {
            close();
            check_ok(result, "uct_iface_open");
        }
        for (std::uint8_t id = 0; id < UCT_AM_ID_MAX; ++id) {
            handlers_.push_back(std::make_unique<Handler>(Handler{this, id}));
            check_ok(uct_iface_set_am_handler(iface, id, receive, handlers_.back().get(), 0),
                     "am handler");
        }
    }
    ~Interface() { close(); }
    Interface(const Interface&) = delete;
    Interface& operator=(const Interface&) = delete;

    void close_iface() {
        if (iface != nullptr) {
            uct_iface_close(std::exchange(iface, nullptr));
        }
    }
    void close() {
        close_iface();
        if (worker != nullptr) {
            uct_worker_destroy(worker);
            ucs_async_context_destroy(async_);
            uct_md_close(md);
            worker = nullptr;
        }
    }

    unsigned progress() { return uct_worker_progress(worker); }

    uct_md_h md = nullptr;
    uct_md_attr_t md_attr{};
    uct_worker_h worker = nullptr;
    uct_iface_h iface = nullptr;
    uct_iface_attr_t attr{};
    std::vector<Message> messages;
    std::vector<Failure> failures;
    std::function<void(std::uint8_t, const std::byte*, std::size_t)> on_message;
    std::function<void(uct_ep_h, ucs_status_t)> on_failure;

private:
    struct Handler {
        Interface* owner;
        std::uint8_t id;
    };

    ucs_status_t try_open(const Settings& settings, bool with_error_handler, const Wishes& wishes) {
        uct_tl_resource_desc_t* resources = nullptr;
        unsigned count = 0;
        check_ok(uct_md_query_tl_resources(md, &resources, &count), "tl resources");
        const std::string device = count == 1 ? resources[0].dev_name : "";
        const std::string transport = count == 1 ? resources[0].tl_name : "";
        uct_release_tl_resource_list(resources);
        EXPECT_EQ(count, 1u);
        EXPECT_EQ(transport, "comch");

        uct_iface_config_t* config = nullptr;
        check_ok(uct_md_iface_config_read(md, "comch", nullptr, nullptr, &config), "iface config");
        modify(config, settings);
        uct_iface_params_t params{};
        params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                            UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS;
        params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
        const auto wish = [&](std::optional<std::size_t> value, std::uint64_t field,
                              std::size_t& place) {
            if (value) {
                params.field_mask |= field;
                place = *value;
            }
        };
        wish(wishes.rx_headroom, UCT_IFACE_PARAM_FIELD_RX_HEADROOM, params.rx_headroom);
        wish(wishes.am_alignment, UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT, params.am_alignment);
        wish(wishes.am_align_offset, UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET, params.am_align_offset);
        params.mode.device.tl_name = transport.c_str();
        params.mode.device.dev_name = device.c_str();
        if (with_error_handler) {
            params.field_mask |=
                UCT_IFACE_PARAM_FIELD_ERR_HANDLER | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG;
            params.err_handler = fail;
            params.err_handler_arg = this;
        }
        const ucs_status_t status = uct_iface_open(md, worker, &params, config, &iface);
        uct_config_release(config);
        if (status != UCS_OK) {
            iface = nullptr;
            return status;
        }
        uct_iface_progress_enable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
        return uct_iface_query(iface, &attr);
    }

    static ucs_status_t receive(void* arg, void* data, std::size_t length, unsigned) {
        const auto& handler = *static_cast<Handler*>(arg);
        const auto* bytes = static_cast<const std::byte*>(data);
        if (handler.owner->on_message) {
            handler.owner->on_message(handler.id, bytes, length);
        } else {
            handler.owner->messages.push_back({handler.id, {bytes, bytes + length}});
        }
        return UCS_OK;
    }
    static ucs_status_t fail(void* arg, uct_ep_h ep, ucs_status_t status) {
        auto* self = static_cast<Interface*>(arg);
        self->failures.push_back({ep, status});
        if (self->on_failure) {
            self->on_failure(ep, status);
        }
        return UCS_OK;
    }

    ucs_async_context_t* async_ = nullptr;
    std::vector<std::unique_ptr<Handler>> handlers_;
};

/// Where an interface can be reached: plain bytes, so that it can travel between processes.
struct Address {
    std::byte device[32];
    std::byte iface[32];
};
inline Address address_of(const Interface& interface) {
    Address address{};
    if (interface.attr.device_addr_len > sizeof(address.device) ||
        interface.attr.iface_addr_len > sizeof(address.iface)) {
        throw std::runtime_error("an address is longer than the tests know");
    }
    check_ok(uct_iface_get_device_address(interface.iface,
                                          reinterpret_cast<uct_device_addr_t*>(address.device)),
             "device address");
    check_ok(
        uct_iface_get_address(interface.iface, reinterpret_cast<uct_iface_addr_t*>(address.iface)),
        "iface address");
    return address;
}

inline std::pair<uct_ep_h, ucs_status_t> try_create_ep(const Interface& from, const Address& to) {
    uct_ep_params_t params{};
    params.field_mask =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = from.iface;
    params.dev_addr = reinterpret_cast<const uct_device_addr_t*>(to.device);
    params.iface_addr = reinterpret_cast<const uct_iface_addr_t*>(to.iface);
    uct_ep_h ep = nullptr;
    const ucs_status_t status = uct_ep_create(&params, &ep);
    return {ep, status};
}

class Endpoint {
public:
    Endpoint(const Interface& from, const Address& to) {
        const auto [created, status] = try_create_ep(from, to);
        check_ok(status, "uct_ep_create");
        ep_ = created;
    }
    Endpoint(const Interface& from, const Interface& to) : Endpoint(from, address_of(to)) {}
    Endpoint(Endpoint&& other) noexcept : ep_(std::exchange(other.ep_, nullptr)) {}
    ~Endpoint() { destroy(); }
    void destroy() {
        if (ep_ != nullptr) {
            uct_ep_destroy(std::exchange(ep_, nullptr));
        }
    }
    operator uct_ep_h() const { return ep_; } // NOLINT: it stands for the handle

private:
    uct_ep_h ep_ = nullptr;
};

/// Progresses the interfaces until `done`; false after `patience`.
template <class Done, class... Interfaces> bool until(Done done, Interfaces&... interfaces) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (unsigned turn = 1; !done(); ++turn) {
        const bool idle = ((interfaces.progress()) + ... + 0u) == 0;
        if (idle) {
            std::this_thread::yield();
        }
        if ((idle || turn % 1024 == 0) && std::chrono::steady_clock::now() > deadline) {
            return false;
        }
    }
    return true;
}

/// Progresses for a while: for what must not happen.
template <class... Interfaces>
void settle(std::chrono::milliseconds time, Interfaces&... interfaces) {
    comch::test::for_a_while(time, [&] { ((void)interfaces.progress(), ...); });
}

/// Calls `operation` until it is not refused for want of resources. Answers its last status.
template <class Operation, class... Interfaces>
auto persist(Operation operation, Interfaces&... interfaces) {
    auto status = operation();
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (status == static_cast<decltype(status)>(UCS_ERR_NO_RESOURCE) &&
           std::chrono::steady_clock::now() < deadline) {
        ((void)interfaces.progress(), ...);
        status = operation();
    }
    return status;
}

/// Flushes an endpoint and waits for it.
template <class... Interfaces> ucs_status_t flush(uct_ep_h ep, Interfaces&... interfaces) {
    Completion completion;
    const ucs_status_t status =
        persist([&] { return uct_ep_flush(ep, 0, &completion.super); }, interfaces...);
    if (status != UCS_INPROGRESS) {
        return status;
    }
    return until([&] { return completion.done(); }, interfaces...) ? completion.status()
                                                                   : UCS_ERR_TIMED_OUT;
}

/// Waits for an operation that may have been started with `completion`.
template <class... Interfaces>
ucs_status_t finish(ucs_status_t started, const Completion& completion, Interfaces&... interfaces) {
    if (started != UCS_INPROGRESS) {
        EXPECT_EQ(completion.calls, 0) << "completed twice: by the answer and by the callback";
        return started;
    }
    return until([&] { return completion.done(); }, interfaces...) ? completion.status()
                                                                   : UCS_ERR_TIMED_OUT;
}

// ---- packing and unpacking ----------------------------------------------------------------------

struct Packing {
    const std::byte* from;
    std::size_t length;
    static std::size_t pack(void* to, void* arg) {
        const auto& self = *static_cast<Packing*>(arg);
        if (self.length != 0) {
            std::memcpy(to, self.from, self.length);
        }
        return self.length;
    }
};

struct Unpacking {
    std::vector<std::byte> bytes;
    int calls = 0;
    static void unpack(void* arg, const void* from, std::size_t length) {
        auto& self = *static_cast<Unpacking*>(arg);
        const auto* bytes = static_cast<const std::byte*>(from);
        self.bytes.assign(bytes, bytes + length);
        ++self.calls;
    }
};

inline uct_iov_t iov_of(const std::byte* data, std::size_t length) {
    return {const_cast<std::byte*>(data), length, UCT_MEM_HANDLE_NULL, 0, 1};
}

// ---- memory -------------------------------------------------------------------------------------

enum class Kind : std::uint32_t { registered, allocated };
inline constexpr Kind kinds[] = {Kind::registered, Kind::allocated};
inline const char* name_of(Kind kind) {
    return kind == Kind::registered ? "registered" : "allocated";
}

/// A range of memory that peers may reach.
class Memory {
public:
    Memory(uct_md_h md, Kind kind, std::size_t length, unsigned flags = UCT_MD_MEM_ACCESS_ALL)
        : md_(md), kind_(kind), length_(length) {
        if (kind == Kind::registered) {
            heap_.resize(length);
            data_ = heap_.data();
            check_ok(uct_md_mem_reg(md, data_, length, flags, &memh_), "uct_md_mem_reg");
        } else {
            uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
            uct_mem_alloc_params_t params{};
            params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_MDS | UCT_MEM_ALLOC_PARAM_FIELD_FLAGS |
                                UCT_MEM_ALLOC_PARAM_FIELD_NAME;
            params.flags = flags;
            params.mds.mds = &md_;
            params.mds.count = 1;
            params.name = "test";
            check_ok(uct_mem_alloc(length, &method, 1, &params, &allocated_), "uct_mem_alloc");
            EXPECT_GE(allocated_.length, length);
            data_ = static_cast<std::byte*>(allocated_.address);
            memh_ = allocated_.memh;
        }
    }
    ~Memory() { release(); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    void release() {
        if (memh_ == nullptr) {
            return;
        }
        check_ok(kind_ == Kind::registered ? uct_md_mem_dereg(md_, memh_)
                                           : uct_mem_free(&allocated_),
                 "release of memory");
        memh_ = nullptr;
    }

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t length() const { return length_; }
    [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
    [[nodiscard]] uct_mem_h handle() const { return memh_; }

private:
    uct_md_h md_;
    Kind kind_;
    std::size_t length_;
    uct_mem_h memh_ = nullptr;
    std::byte* data_ = nullptr;
    std::vector<std::byte> heap_;
    uct_allocated_memory_t allocated_{};
};

/// A packed key: plain bytes.
struct PackedKey {
    std::byte bytes[128];
};
inline PackedKey pack_key(const Interface& interface, uct_mem_h memory, unsigned flags = 0) {
    PackedKey key{};
    if (interface.md_attr.rkey_packed_size > sizeof(key)) {
        throw std::runtime_error("a packed key is longer than the tests know");
    }
    uct_md_mkey_pack_params_t params{};
    params.field_mask = UCT_MD_MKEY_PACK_FIELD_FLAGS;
    params.flags = flags;
    check_ok(uct_md_mkey_pack_v2(interface.md, memory, &params, key.bytes), "uct_md_mkey_pack_v2");
    return key;
}
inline PackedKey pack_key(const Interface& interface, const Memory& memory, unsigned flags = 0) {
    return pack_key(interface, memory.handle(), flags);
}

class RemoteKey {
public:
    explicit RemoteKey(const PackedKey& key) {
        check_ok(uct_rkey_unpack(comch_component(), key.bytes, &bundle_), "uct_rkey_unpack");
    }
    ~RemoteKey() { (void)uct_rkey_release(comch_component(), &bundle_); }
    RemoteKey(const RemoteKey&) = delete;
    RemoteKey& operator=(const RemoteKey&) = delete;
    operator uct_rkey_t() const { return bundle_.rkey; } // NOLINT: it stands for the handle

private:
    uct_rkey_bundle_t bundle_{};
};

} // namespace comch::uct::test
