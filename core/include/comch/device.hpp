// Domains, devices and representors.
//
//     auto domain = comch::Domain::open();                       // the user's default domain
//     auto device = comch::default_device(*domain);              // COMCH_SIDE, COMCH_DEVICE
//     auto device = comch::open_device(*domain, "3b:00.0");      // or by name or PCI address
//     auto rep    = device->representor("host_pf0");             // on the DPU
//
// A Domain is the directory in which the processes of one DPU and of the host functions it serves
// find each other, together with the description of those functions. Devices and representors
// are small values that keep their domain alive.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <comch/capabilities.hpp>
#include <comch/error.hpp>
#include <comch/side.hpp>

namespace comch {

enum class FunctionKind : std::uint8_t { pf = 0, vf = 1, sf = 2 };

/// "PF", "VF", "SF".
[[nodiscard]] std::string_view to_string(FunctionKind kind) noexcept;

/// Names a function on the wire and in file names.
///
/// 0 is the DPU's own device. A host function's id is a 32-bit hash of its PCI address (and, for
/// an SF, which shares the address of its PF, of its index). It depends on nothing but that
/// function, so that two processes agree even when one of them read the description before a line
/// was inserted in it; where they disagree, the id is unknown rather than another function's, as
/// a position in the file would be. Loading a description refuses colliding ids.
using FunctionId = std::uint32_t;
inline constexpr FunctionId dpu_function_id = 0;

/// UCX cuts a device's name at 32 bytes, NUL included. (The counter file keeps 24 of them.)
inline constexpr std::size_t max_device_name_size = 32;

using MacAddress = std::array<std::uint8_t, 6>;

/// One PCIe function, as the domain's description has it.
struct Function {
    FunctionId id = dpu_function_id;
    Side side = Side::host;
    FunctionKind kind = FunctionKind::pf;
    std::string name;        ///< unique in the domain
    std::string pci_address; ///< full form, lower case: "0000:3b:00.0"; unique on its side, but
                             ///< an SF has its PF's
    std::uint32_t index = 0; ///< the PF's, VF's or SF's number
    std::string vuid;        ///< unique in the domain; programs compare it, nobody parses it
    std::string iface;       ///< network interface of the function on its own side
    std::string representor_iface; ///< host functions: the representor's interface on the DPU
    std::optional<MacAddress> mac;
    /// IP address of the function's interface, in its usual text form; empty: none given. Over RDMA
    /// it is where the function is reached, and what a peer's claim to be the function is held
    /// against.
    std::string address;

    friend bool operator==(const Function&, const Function&) = default;
};

/// The full, lower-case form of "3b:00.0" or "0000:3B:00.0"; invalid_argument for anything else.
[[nodiscard]] Result<std::string> normalize_pci_address(std::string_view address);

/// "host" or "dpu" in any case; invalid_argument for anything else.
[[nodiscard]] Result<Side> parse_side(std::string_view text);

/// What carries the connections of a domain.
enum class Transport : std::uint8_t {
    memory, ///< shared memory of one machine: the soft device
    rdma,   ///< RDMA devices, by libibverbs and librdmacm
};

/// All functions of a domain: one DPU device, and at least one host function.
struct DomainDescription {
    Function dpu;
    std::vector<Function> host; ///< in the order of the file; the first is the default device
    std::string source;         ///< where it was read: a path, or "built-in default"
    Transport transport = Transport::memory;
    /// Not empty: the domain's identity is made of this, not of its directory, so that two machines
    /// can share the domain. RDMA needs it.
    std::string name;
    /// Over RDMA: the ports that servers are found at.
    std::uint16_t first_port = 27000;
    std::uint16_t port_count = 4096;
};

/// Same in every process that sees the domain's directory, whatever path it sees it under.
struct DomainId {
    std::array<std::uint8_t, 16> bytes{};

    [[nodiscard]] std::string to_string() const; ///< 32 hexadecimal digits
    friend bool operator==(const DomainId&, const DomainId&) = default;
};

struct DomainOptions {
    /// An absolute path, or a bare name N for /dev/shm/comch-<euid>-N. Empty: the environment's
    /// COMCH_DOMAIN, else /dev/shm/comch-<euid>.
    std::string directory;
    /// Path of a description. Empty: the environment's COMCH_DOMAIN_FILE, else domain.toml in the
    /// domain's directory, else the built-in default (config/domain.toml).
    std::string description_file;
};

/// Holds the domain's lock; ends with the object, in the thread that took it. While it is held,
/// fork() in another thread of this process waits (a child must not inherit the lock); the holder
/// itself must not fork.
class DomainLock {
public:
    DomainLock(DomainLock&& other) noexcept;
    DomainLock& operator=(DomainLock&& other) noexcept;
    ~DomainLock();

private:
    friend class Domain;
    explicit DomainLock(int fd) noexcept : fd_(fd) {}
    void release() noexcept;

    int fd_ = -1;
};

class Domain {
public:
    /// The name of an entry that is a socket must fit sockaddr_un behind
    /// "/proc/thread-self/fd/<fd>/".
    static constexpr std::size_t max_socket_name = 72;

    /// Opens the domain, creating its directory (mode 0700) if it is not there. The directory
    /// must be ours alone: not a symbolic link, owned by the effective user, mode 0700.
    /// invalid_argument: a name, or what the description says, is malformed; not_found: there is no
    /// such description, or no directory to create the domain's in; not_permitted: it is not ours
    /// alone; no_memory: no descriptor is left; io: the directory cannot be used.
    [[nodiscard]] static Result<std::shared_ptr<Domain>> open(const DomainOptions& options = {});

    ~Domain();
    Domain(const Domain&) = delete;
    Domain& operator=(const Domain&) = delete;

    [[nodiscard]] const DomainId& id() const noexcept { return id_; }
    [[nodiscard]] const std::string& path() const noexcept { return path_; } ///< for people only
    [[nodiscard]] const DomainDescription& description() const noexcept { return description_; }
    /// Do its processes talk over RDMA devices? Else over shared memory.
    [[nodiscard]] bool over_rdma() const noexcept {
        return description_.transport == Transport::rdma;
    }

    /// Everything in the directory is reached with *at() calls on this descriptor, never by path:
    /// the path may mean something else by now, or in this mount namespace.
    [[nodiscard]] int directory_fd() const noexcept { return fd_; }

    /// Which directory it is, whatever its path and whatever domain it is said to be.
    [[nodiscard]] std::string directory_key() const;

    /// A path by which bind() and connect() reach a socket in the directory. The name has at most
    /// max_socket_name bytes.
    [[nodiscard]] std::string socket_path(std::string_view name) const;

    /// Waits for the domain's lock, which serializes changes to the directory among processes and
    /// threads; in_use when it was not had within `timeout`. Not recursive.
    [[nodiscard]] Result<DomainLock>
    lock(std::chrono::milliseconds timeout = std::chrono::seconds(10)) const;

    /// Names of the directory's entries that begin with `prefix`, sorted.
    [[nodiscard]] Result<std::vector<std::string>> list_entries(std::string_view prefix) const;

    /// Removes an entry; that it is gone already is no error.
    [[nodiscard]] Result<void> remove_entry(std::string_view name) const;

    /// The function with this id, or null.
    [[nodiscard]] const Function* find_function(FunctionId id) const noexcept;

    /// The functions of a side, in the description's order.
    [[nodiscard]] std::vector<Function> functions(Side side) const;

private:
    Domain(int fd, std::string path) noexcept : fd_(fd), path_(std::move(path)) {}

    Result<void> load_id();

    int fd_ = -1;
    std::string path_;
    DomainId id_;
    DomainDescription description_;
};

/// On the DPU, the stand-in for one host function. A value; keeps its domain alive.
class Representor {
public:
    /// The host function it stands for.
    [[nodiscard]] const Function& function() const noexcept { return *function_; }
    [[nodiscard]] const std::shared_ptr<Domain>& domain() const noexcept { return domain_; }

private:
    friend class Device;
    Representor(std::shared_ptr<Domain> domain, const Function& function) noexcept
        : domain_(std::move(domain)), function_(&function) {}

    std::shared_ptr<Domain> domain_;
    const Function* function_; ///< in the domain's description
};

/// A function that this process opened. A value; keeps its domain alive.
class Device {
public:
    [[nodiscard]] const Function& function() const noexcept { return *function_; }
    [[nodiscard]] const std::shared_ptr<Domain>& domain() const noexcept { return domain_; }
    [[nodiscard]] Side side() const noexcept { return function_->side; }
    [[nodiscard]] Capabilities capabilities() const noexcept { return capabilities_of(side()); }

    /// One for each host function. On the host: not_permitted.
    [[nodiscard]] Result<std::vector<Representor>> representors() const;

    /// The representor of a host function, by that function's name or PCI address. On the host:
    /// not_permitted. not_found: there is no such function.
    [[nodiscard]] Result<Representor> representor(std::string_view name_or_pci) const;

private:
    friend Result<Device> open_device(const std::shared_ptr<Domain>&, std::string_view,
                                      std::optional<Side>);
    friend std::vector<Device> devices(const std::shared_ptr<Domain>&, Side);
    Device(std::shared_ptr<Domain> domain, const Function& function) noexcept
        : domain_(std::move(domain)), function_(&function) {}

    std::shared_ptr<Domain> domain_;
    const Function* function_; ///< in the domain's description
};

/// The devices of a side.
[[nodiscard]] std::vector<Device> devices(const std::shared_ptr<Domain>& domain, Side side);

/// Opens a device by name or PCI address ("3b:00.0" or "0000:3b:00.0", any case). Without a side
/// both are searched; an address that both sides have needs one (else invalid_argument). An SF is
/// opened by its name. not_found: there is no such device.
[[nodiscard]] Result<Device> open_device(const std::shared_ptr<Domain>& domain,
                                         std::string_view name_or_pci,
                                         std::optional<Side> side = std::nullopt);

/// What a program or its middleware was told; what is left open comes from the environment.
struct DeviceChoice {
    std::string side;   ///< "host", "dpu"; empty: COMCH_SIDE
    std::string device; ///< name or PCI address; empty: COMCH_DEVICE
};

/// The one device of a process that nobody asked to pick one. Neither setting: the first host
/// function. Only a side: its first device. Only a device: that one, on whichever side it is.
[[nodiscard]] Result<Device> default_device(const std::shared_ptr<Domain>& domain,
                                            const DeviceChoice& choice = {});

} // namespace comch
