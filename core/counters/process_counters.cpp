#include "core/counters/process_counters.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <map>

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/device/per_process.hpp"

namespace comch {
namespace {

constexpr std::string_view alive_prefix = "alive.";
constexpr std::string_view counters_prefix = "counters.";

/// Takes the lock if nobody has it. It belongs to the open file, not to the process: a process may
/// have several copies of this library (UCX's module and libfabric's provider, in an MPI program),
/// each with a file of its own, and who closes a file gives up all locks of his process on it.
bool try_lock(int fd) noexcept {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/// The open file of a lock of ours: a forked child shares it, and would keep the lock of a parent
/// that is gone, so it closes it. Known by more than its number, which the program may have closed
/// and used again.
struct LockFile {
    std::atomic<int> fd_plus_1{0}; ///< 0: none
    dev_t device = 0;
    ino_t inode = 0;
};
std::array<LockFile, 64> lock_files;

void close_lock_files() noexcept {
    for (LockFile& file : lock_files) {
        const int fd = file.fd_plus_1.exchange(0) - 1;
        struct stat now {};
        if (fd >= 0 && ::fstat(fd, &now) == 0 && now.st_dev == file.device &&
            now.st_ino == file.inode) {
            ::close(fd);
        }
    }
}

/// When the library is loaded, and not while a lock is held that a fork waits for. (If it fails, or
/// in more domains than there are places, a child that lives longer makes its parent seem alive.)
[[gnu::constructor]] void close_lock_files_in_children() {
    (void)::pthread_atfork(nullptr, nullptr, close_lock_files);
}

/// Under the domain's lock. False: there is no place for it.
bool note_lock_file(int fd) noexcept {
    struct stat it {};
    if (::fstat(fd, &it) != 0) {
        return false;
    }
    for (LockFile& file : lock_files) {
        if (file.fd_plus_1.load() == 0) {
            file.device = it.st_dev;
            file.inode = it.st_ino;
            file.fd_plus_1.store(fd + 1);
            return true;
        }
    }
    return false;
}

void forget_lock_file(int fd) noexcept {
    for (LockFile& file : lock_files) {
        int ours = fd + 1;
        if (file.fd_plus_1.compare_exchange_strong(ours, 0)) {
            return;
        }
    }
}

/// Is the entry named after its owner, or a symbolic link to one that is?
bool belongs_to(const Domain& domain, const std::string& entry, const std::string& owner) {
    if (entry.find("." + owner) != std::string::npos) {
        return true;
    }
    char target[128] = {};
    const auto n = ::readlinkat(domain.directory_fd(), entry.c_str(), target, sizeof(target) - 1);
    return n > 0 && std::string_view(target, static_cast<std::size_t>(n)).find("." + owner) !=
                        std::string_view::npos;
}

struct Registry {
    std::mutex mutex;
    /// By directory: two may be said to be one domain, and each has files of ours.
    std::map<std::string, std::weak_ptr<ProcessCounters>> open;
};
Registry& registry() {
    static constinit PerProcess<Registry> instance;
    return instance.get();
}

template <std::size_t N> void set_text(char (&field)[N], std::string_view text) noexcept {
    std::memset(field, 0, N);
    text.copy(field, N - 1);
}

void describe(counters::Slot& slot, const SlotInfo& info) noexcept {
    slot.local_side = static_cast<std::uint32_t>(info.local_side);
    slot.peer_side = static_cast<std::uint32_t>(info.peer_side);
    slot.kind = static_cast<std::uint32_t>(info.kind);
    slot.peer_pid = info.peer_pid;
    slot.connection = info.connection;
    set_text(slot.face, info.face);
    set_text(slot.peer, info.peer);
    slot.state.store(static_cast<std::uint32_t>(info.state), std::memory_order_release);
}

/// Has the file's pages: a store to one for which there is no room would kill the process.
bool reserve(int file, std::size_t offset, std::size_t length) noexcept {
    int error = EINTR;
    while (error == EINTR) {
        error = ::posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(length));
    }
    return error == 0;
}

} // namespace

std::string process_suffix(ProcessId id) {
    return fmt::format("{:016x}", id);
}

bool process_lives(const Domain& domain, const std::string& suffix) {
    if (suffix == process_suffix(process_id())) {
        return true;
    }
    const std::string entry = std::string(alive_prefix) + suffix;
    const UniqueFd fd(::openat(domain.directory_fd(), entry.c_str(),
                               O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) {
        return errno != ENOENT; // we may be out of descriptors; that says nothing about others
    }
    // Asks only: taking the lock, even for a moment, could collide with its owner taking it.
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return ::fcntl(fd.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

namespace {

/// Removes what dead processes left in the domain's directory. Under the domain's lock.
void collect_dead_processes(const Domain& domain) {
    const auto alive = domain.list_entries(alive_prefix);
    if (!alive) {
        return;
    }
    std::vector<std::string> dead;
    for (const std::string& entry : *alive) {
        const std::string owner = entry.substr(alive_prefix.size());
        if (!process_lives(domain, owner)) {
            dead.push_back(owner);
        }
    }
    if (dead.empty()) {
        return;
    }
    const auto entries = domain.list_entries("");
    if (!entries) {
        return;
    }
    for (const std::string& owner : dead) {
        if (owner.size() != 16) {
            continue; // not a name that we make
        }
        const std::string lock_file = std::string(alive_prefix) + owner;
        for (const std::string& entry : *entries) {
            if (entry != lock_file && belongs_to(domain, entry, owner)) {
                (void)domain.remove_entry(entry);
            }
        }
        // Last: without it nobody would collect what is left if we die here.
        (void)domain.remove_entry(lock_file);
    }
}

} // namespace

Result<std::shared_ptr<ProcessCounters>>
ProcessCounters::open(const std::shared_ptr<Domain>& domain) {
    Registry& all = registry();
    const std::lock_guard guard(all.mutex);
    const ProcessId owner = process_id();
    auto& entry = all.open[domain->directory_key()];
    if (auto existing = entry.lock()) {
        return existing;
    }
    const std::string suffix = process_suffix(owner);
    const std::string alive_name = std::string(alive_prefix) + suffix;
    const std::string name = std::string(counters_prefix) + suffix;
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;

    // Under the domain's lock, so that no collector sees the file before its lock is taken.
    auto domain_lock = domain->lock();
    if (!domain_lock) {
        return tl::unexpected(domain_lock.error());
    }
    collect_dead_processes(*domain);
    (void)domain->remove_entry(alive_name);
    (void)domain->remove_entry(name);
    UniqueFd alive(::openat(domain->directory_fd(), alive_name.c_str(), flags, 0600));
    if (!alive || !try_lock(alive.get())) {
        return fail_errno(
            Errc::io,
            fmt::format("cannot create '{}' in domain directory '{}'", alive_name, domain->path()),
            errno);
    }
    UniqueFd file(::openat(domain->directory_fd(), name.c_str(), flags, 0600));
    if (!file || ::ftruncate(file.get(), sizeof(counters::File)) != 0) {
        return fail_errno(
            Errc::io,
            fmt::format("cannot create the counter file '{}' in domain directory '{}'", name,
                        domain->path()),
            errno);
    }
    if (!reserve(file.get(), 0, sizeof(counters::FileHeader))) {
        return fail_errno(Errc::no_memory,
                          fmt::format("no room for the counter file '{}' in domain directory '{}'",
                                      name, domain->path()),
                          ENOSPC);
    }
    void* at =
        ::mmap(nullptr, sizeof(counters::File), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) {
        return fail_errno(Errc::no_memory, fmt::format("cannot map the counter file '{}'", name),
                          errno);
    }
    auto* header = static_cast<counters::FileHeader*>(at);
    header->version = counters::version;
    header->slot_count = counters::max_slots;
    header->pid = static_cast<std::uint64_t>(::getpid());
    header->process_id = owner;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    header->start_time_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
                            static_cast<std::uint64_t>(now.tv_nsec);
    if (const UniqueFd comm(::open("/proc/self/comm", O_RDONLY | O_CLOEXEC)); comm) {
        const auto n = ::read(comm.get(), header->program, sizeof(header->program) - 1);
        if (n > 0 && header->program[n - 1] == '\n') {
            header->program[n - 1] = '\0';
        }
    }
    // Release: readers, who look at this first, find the rest there.
    std::atomic_ref(header->magic).store(counters::magic, std::memory_order_release);
    // (All memory is found before it is made: its end takes the lock that is held here.)
    auto result = std::make_shared<ProcessCounters>(
        Made{}, domain, name, alive_name,
        Mapping(static_cast<std::byte*>(at), sizeof(counters::File)), std::move(file),
        std::move(alive));
    entry = result;
    return result;
}

ProcessCounters::ProcessCounters(Made, std::shared_ptr<Domain> domain, std::string name,
                                 std::string alive_name, Mapping mapping, UniqueFd file,
                                 UniqueFd lock)
    : domain_(std::move(domain)), name_(std::move(name)), alive_name_(std::move(alive_name)),
      mapping_(std::move(mapping)), file_(std::move(file)), alive_(std::move(lock)) {
    noted_ = note_lock_file(alive_.get());
}

ProcessCounters::~ProcessCounters() {
    if (owner_ != process_id()) {
        // A forked child: the files are its parent's, and it has closed this one already.
        if (noted_) {
            (void)alive_.release();
        }
        return;
    }
    forget_lock_file(alive_.get());
    Registry& all = registry();
    const std::lock_guard guard(all.mutex);
    const auto entry = all.open.find(domain_->directory_key());
    if (entry != all.open.end() && !entry->second.expired()) {
        return; // another thread has opened it again meanwhile: the files are its own
    }
    if (entry != all.open.end()) {
        all.open.erase(entry);
    }
    // The lock file last: without it nobody would collect what is left if we die here.
    (void)domain_->remove_entry(name_);
    (void)domain_->remove_entry(alive_name_);
}

counters::Slot* ProcessCounters::take_slot(const SlotInfo& info) {
    auto* file = reinterpret_cast<counters::File*>(mapping_.data());
    const std::lock_guard guard(mutex_);
    if (released_.capacity() <= used_) { // giving back never allocates
        released_.reserve(2 * std::size_t{used_} + 4);
    }
    if (used_ < counters::max_slots &&
        reserve(file_.get(), offsetof(counters::File, slots) + used_ * sizeof(counters::Slot),
                sizeof(counters::Slot))) {
        counters::Slot* slot = &file->slots[used_++];
        describe(*slot, info);
        return slot;
    }
    if (released_.empty()) {
        file->header.overflow.state.store(
            static_cast<std::uint32_t>(counters::SlotState::connected), std::memory_order_release);
        return &file->header.overflow;
    }
    counters::Slot* slot = &file->slots[released_.back()];
    released_.pop_back();
    // What the slot counted so far moves to the sums, so that totals never shrink.
    const auto move = [](counters::Counter& from, counters::Counter& to) {
        to.add(from.get());
        from.value.store(0, std::memory_order_relaxed);
    };
    auto& tx = file->header.closed_tx;
    auto& rx = file->header.closed_rx;
    move(slot->tx.messages, tx.messages);
    move(slot->tx.bytes, tx.bytes);
    move(slot->tx.bulk_ring_bytes, tx.bulk_ring_bytes);
    move(slot->tx.mapped_bytes, tx.mapped_bytes);
    move(slot->tx.process_vm_bytes, tx.process_vm_bytes);
    move(slot->tx.one_sided, tx.one_sided);
    move(slot->tx.credit_stalls, tx.credit_stalls);
    move(slot->tx.buffer_stalls, tx.buffer_stalls);
    move(slot->rx.messages, rx.messages);
    move(slot->rx.bytes, rx.bytes);
    move(slot->rx.bulk_ring_bytes, rx.bulk_ring_bytes);
    move(slot->rx.one_sided_served, rx.one_sided_served);
    move(slot->rx.wakeups, rx.wakeups);
    describe(*slot, info);
    return slot;
}

void ProcessCounters::describe_slot(counters::Slot* slot, const SlotInfo& info) {
    auto* file = reinterpret_cast<counters::File*>(mapping_.data());
    if (slot != &file->header.overflow) {
        describe(*slot, info);
    }
}

void ProcessCounters::release_slot(counters::Slot* slot, counters::SlotState state) {
    auto* file = reinterpret_cast<counters::File*>(mapping_.data());
    if (slot == &file->header.overflow) {
        return;
    }
    slot->state.store(static_cast<std::uint32_t>(state), std::memory_order_relaxed);
    const std::lock_guard guard(mutex_);
    released_.push_back(static_cast<std::uint32_t>(slot - file->slots));
}

} // namespace comch
